//! A server under load, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::floor::MODE;

pub const SECRET: &str = "benchmark-secret";

pub struct Server {
    pub address: SocketAddr,
    pub is_floor: bool,
    child: Child,
    folder: TempDir,
}

impl Server {
    pub fn ours() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "broker:\n  port: {port}\n  secret: {SECRET}\n  dataDir: ./data\n  rateLimitLoopback: 4000000000\n"
        );
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let child = broker(&folder);
        Self { address: SocketAddr::from(([127, 0, 0, 1], port)), is_floor: false, child, folder }
    }

    pub fn floor() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(MODE).arg(folder.path());
        let (child, address) = start(command, |line| line.strip_prefix("floor on ")?.parse().ok());
        Self { address, is_floor: true, child, folder }
    }

    /// Kills our broker and starts it on what it left. How long it took to be ready.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub fn restart(&mut self) -> Duration {
        self.kill();
        let began = Instant::now();
        self.child = broker(&self.folder);
        began.elapsed()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn kill(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn broker(folder: &TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
    command.args(["serve", "--config", "config.yaml"]).current_dir(folder.path());
    start(command, |line| line.contains("broker").then_some(())).0
}

/// Starts a process and waits for the line that says it is ready.
fn start<T>(mut command: Command, ready: impl Fn(&str) -> Option<T>) -> (Child, T) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find_map(|line| ready(&line)).expect("the server did not start");
    std::thread::spawn(move || lines.for_each(drop));
    (child, said)
}
