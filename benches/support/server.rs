//! A server under load, as a process of its own.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::agent::{SECRET, free_address};
use crate::common::floor::MODE;
use crate::common::process::Process;

pub struct Server {
    pub address: SocketAddr,
    pub is_floor: bool,
    /// None only while it is started again.
    process: Option<Process>,
    folder: TempDir,
}

impl Server {
    pub fn ours() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        let port = address.port();
        let config = format!(
            "broker:\n  port: {port}\n  secret: {SECRET}\n  dataDir: ./data\n  rateLimitLoopback: 4000000000\n"
        );
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let process = Some(broker(&folder));
        Self { address, is_floor: false, process, folder }
    }

    pub fn floor() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(MODE).arg(folder.path());
        let (process, address) = Process::start(command, |line| line.strip_prefix("floor on ")?.parse().ok());
        Self { address, is_floor: true, process: Some(process), folder }
    }

    /// Kills our broker and starts it on what it left. How long it took to be ready.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub fn restart(&mut self) -> Duration {
        self.process = None;
        let began = Instant::now();
        self.process = Some(broker(&self.folder));
        began.elapsed()
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }
}

fn broker(folder: &TempDir) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
    command.args(["serve", "--config", "config.yaml"]).current_dir(folder.path());
    Process::start(command, |line| line.contains("broker").then_some(())).0
}
