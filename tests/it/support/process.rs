//! The real binary as a child process: started, waited for, killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A process that has said nothing for this long will say nothing more.
const SILENCE: Duration = Duration::from_secs(30);

pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
    command.env_remove("REDSYN_TOKEN").env("RUST_LOG", "redsyn_bridge=info");
    command
}

/// Runs to the end.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    binary().args(arguments).current_dir(folder).output().unwrap()
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
}

impl Process {
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = binary();
        command.args(arguments);
        Self::spawn(command, folder)
    }

    pub fn spawn(mut command: Command, folder: &Path) -> Self {
        let mut child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, errors) = (read(child.stdout.take().unwrap()), read_errors(child.stderr.take().unwrap()));
        Self { child, lines, errors }
    }

    /// Reads standard output up to a line with `text`, and returns all lines until then.
    pub fn wait_for(&mut self, text: &str) -> Vec<String> {
        until(&self.lines, text).unwrap_or_else(|seen| {
            let log: Vec<String> = self.errors.try_iter().collect();
            panic!("no {text:?} in {seen:#?}\nlog: {log:#?}")
        })
    }

    /// The same for the log.
    pub fn wait_for_log(&mut self, text: &str) -> Vec<String> {
        until(&self.errors, text).unwrap_or_else(|seen| panic!("no {text:?} in the log {seen:#?}"))
    }

    /// The log until its end, which the process must be about to reach.
    #[cfg(unix)]
    pub fn rest_of_log(&mut self) -> Vec<String> {
        self.errors.iter().collect()
    }

    /// SIGKILL (or its counterpart), and wait until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, and returns its exit code.
    #[cfg(unix)]
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Asks it to stop and returns its exit code.
    #[cfg(unix)]
    pub fn terminate(self) -> Option<i32> {
        self.signal("-TERM");
        self.ended()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is fine: then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines up to one with `text`, or all there were.
fn until(lines: &mpsc::Receiver<String>, text: &str) -> Result<Vec<String>, Vec<String>> {
    let mut seen = Vec::new();
    while let Ok(line) = lines.recv_timeout(SILENCE) {
        seen.push(line);
        if seen.last().is_some_and(|line| line.contains(text)) {
            return Ok(seen);
        }
    }
    Err(seen)
}

fn read(stream: ChildStdout) -> mpsc::Receiver<String> {
    pump(BufReader::new(stream))
}

fn read_errors(stream: ChildStderr) -> mpsc::Receiver<String> {
    pump(BufReader::new(stream))
}

fn pump(stream: impl BufRead + Send + 'static) -> mpsc::Receiver<String> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stream.lines() {
            let Ok(line) = line else { break };
            if to.send(line).is_err() {
                break;
            }
        }
    });
    from
}
