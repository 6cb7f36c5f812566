//! The way from a command to the process that runs: JSON over HTTP on loopback, opened by a token that lies beside
//! the data with mode 0600. What the calls mean is the [`Administrator`]'s; the broker's node and a relay each have
//! one.

pub mod client;
pub mod http;

use std::fmt;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crypto::secret::Secret;

/// The file in the data folder that names the endpoint.
pub const FILE: &str = "admin.json";

/// Where the endpoint of a running process is, and what opens it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    pub token: Secret,
    /// The process that wrote it: another one has left a stale file.
    pub process: u32,
}

#[derive(Serialize, Deserialize)]
struct Written {
    address: SocketAddr,
    token: String,
    process: u32,
}

impl Endpoint {
    /// The text of the file; none when it is damaged.
    pub fn parse(text: &str) -> Option<Self> {
        let written: Written = serde_json::from_str(text).ok()?;
        // Whoever can write the file could send the token elsewhere.
        let is_here = written.address.ip().is_loopback();
        is_here.then(|| Self {
            address: written.address,
            token: Secret::new(written.token),
            process: written.process,
        })
    }

    pub fn to_text(&self) -> String {
        let token = self.token.expose();
        format!("{{\"address\":\"{}\",\"token\":\"{token}\",\"process\":{}}}\n", self.address, self.process)
    }
}

/// Carries out commands.
pub trait Administrator: Send + Sync + fmt::Debug + 'static {
    /// Answers a request, or says in one sentence for a person why not.
    fn call(&self, request: Value) -> BoxFuture<'_, Result<Value, String>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written_and_names_this_machine() {
        let endpoint =
            Endpoint { address: "127.0.0.1:4711".parse().unwrap(), token: Secret::new("cafe"), process: 7 };
        let read = Endpoint::parse(&endpoint.to_text()).unwrap();
        assert_eq!((read.address, read.token.expose(), read.process), (endpoint.address, "cafe", 7));
        assert!(Endpoint::parse(&endpoint.to_text().replace("127.0.0.1", "192.0.2.1")).is_none());
        assert!(Endpoint::parse("{}").is_none());
    }
}
