//! A raw HTTP/1.1 client: sends exactly the bytes it is given and reads one answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Sends all of it, or panics: the other side has stopped listening before the end.
    pub fn send_whole(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// `None` when the connection ends without an answer.
    pub fn exchange(&mut self, bytes: &[u8], is_head: bool) -> Option<Answer> {
        // A broker that refuses a body may answer before all of it was sent.
        let _ = self.stream.write_all(bytes);
        loop {
            let end = self.read_until(|buffer| buffer.windows(4).position(|four| four == b"\r\n\r\n"))?;
            let head = String::from_utf8_lossy(&self.take(end + 4)).into_owned();
            let mut lines = head.trim_end().split("\r\n");
            let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
            let header = |line: &str| {
                line.split_once(':').map(|(key, value)| (key.to_lowercase(), value.trim().to_owned()))
            };
            let mut answer = Answer { status, headers: lines.filter_map(header).collect(), body: Vec::new() };
            if status < 200 {
                continue;
            }
            if !is_head {
                let length: usize = answer.header("content-length")?.parse().ok()?;
                self.read_until(|buffer| (buffer.len() >= length).then_some(length))?;
                answer.body = self.take(length);
            }
            return Some(answer);
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        self.buffer.drain(..length).collect()
    }

    fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(at) = found(&self.buffer) {
                return Some(at);
            }
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.buffer.extend_from_slice(&chunk[..length]),
            }
        }
    }
}
