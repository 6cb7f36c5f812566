//! A server under load, as a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Killed when it is dropped.
pub struct Process(Child);

impl Process {
    /// Starts it, and waits for the line that says it is ready.
    pub fn start<T>(mut command: Command, ready: impl Fn(&str) -> Option<T>) -> (Self, T) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find_map(|line| ready(&line)).expect("the server did not start");
        std::thread::spawn(move || lines.for_each(drop));
        (Self(child), said)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
