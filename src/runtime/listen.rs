//! Sockets, with errors that name the port and the way out.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::error::RunError;
use super::open_files;

/// Listens on `address` (`host:port`; port 0 takes a free one). `setting` is the key that changes it.
///
/// # Errors
/// When the port is in use, not allowed, or the address is not of this machine.
pub async fn listen(address: &str, setting: &str) -> Result<(TcpListener, SocketAddr), RunError> {
    let cannot = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program uses it; stop that one".to_owned(),
            std::io::ErrorKind::PermissionDenied => "this user may not use it".to_owned(),
            _ => error.to_string(),
        };
        RunError::other(format!("cannot listen on {address}: {why}, or change {setting}"))
    };
    open_files::raise();
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let local = listener.local_addr().map_err(cannot)?;
    Ok((listener, local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_the_setting() {
        let (_listener, address) = listen("127.0.0.1:0", "broker.port").await.unwrap();
        let error = listen(&address.to_string(), "broker.port").await.unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("broker.port"), "{error}");
    }
}
