//! A server under load, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::floor::MODE;

pub const SECRET: &str = "benchmark-secret";

pub struct Server {
    pub address: SocketAddr,
    pub is_floor: bool,
    child: Child,
    _folder: TempDir,
}

impl Server {
    pub fn ours() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "broker:\n  port: {port}\n  secret: {SECRET}\n  dataDir: ./data\n  rateLimitLoopback: 4000000000\n"
        );
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
        command.args(["serve", "--config", "config.yaml"]).current_dir(folder.path());
        Self::start(command, folder, false, |line| {
            line.contains("broker").then(|| SocketAddr::from(([127, 0, 0, 1], 0)))
        })
        .at(port)
    }

    pub fn floor() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(MODE).arg(folder.path());
        Self::start(command, folder, true, |line| line.strip_prefix("floor on ")?.parse().ok())
    }

    fn start(
        mut command: Command,
        folder: TempDir,
        is_floor: bool,
        ready: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| ready(&line)).expect("the server did not start");
        std::thread::spawn(move || lines.for_each(drop));
        Self { address, is_floor, child, _folder: folder }
    }

    fn at(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
