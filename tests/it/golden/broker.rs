//! A broker process. Its readiness is read from what it prints; it is only ever signalled by its own id.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::case;

pub(super) struct Broker {
    pub(super) config: String,
    pub(super) port: u16,
    folder: PathBuf,
    child: Option<Child>,
}

impl Broker {
    pub(super) fn new(folder: PathBuf, config: String) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        Self { config, port: 0, folder, child: None }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Whether the broker listens; otherwise its exit code.
    pub(super) fn start(&mut self) -> Result<(), i32> {
        self.port = free_port();
        let file = self.folder.join("config.yaml");
        std::fs::write(&file, self.rendered()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"))
            .args(["serve", "--config"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        if lines.any(|line| line.contains("is running")) {
            // What it prints from now on is of no interest, but must not fill the pipe.
            std::thread::spawn(move || lines.for_each(drop));
            self.child = Some(child);
            return Ok(());
        }
        Err(child.wait().unwrap().code().unwrap_or(-1))
    }

    fn rendered(&self) -> String {
        let mut text = self.config.replace("{{PORT}}", &self.port.to_string());
        text = text.replace("{{DATA}}", self.data().to_str().unwrap());
        while let Some((before, after)) = text.split_once("{{EPOCH") {
            let (offset, after) = after.split_once("}}").unwrap();
            let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().unwrap() };
            let epoch = i64::try_from(case::now().as_secs()).unwrap() + offset;
            text = format!("{before}{epoch}{after}");
        }
        text
    }

    pub(super) fn stop(&mut self, signal: &str) {
        let Some(mut child) = self.child.take() else { return };
        // Elsewhere nothing asks another process to end.
        if signal == "SIGTERM" && cfg!(unix) {
            let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        } else {
            child.kill().unwrap();
        }
        child.wait().unwrap();
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop("SIGKILL");
    }
}

/// A port that nobody listens on, and that no other test of this run has been given. It lies below those that systems
/// give out themselves, or a connection of another test could take it before its server starts.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Runs side by side begin at different places.
        let step = std::process::id().wrapping_mul(97).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + step % COUNT).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
