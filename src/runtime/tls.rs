//! The certificate and key of a relay that does its own TLS.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::RunError;

/// Reads both files. They are read once: a renewed certificate needs a restart.
///
/// # Errors
/// When a file cannot be read, holds nothing of its kind, or the two do not belong together.
pub fn server_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, RunError> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("tls.cert", cert, &error))?;
    if chain.is_empty() {
        return Err(wrong("tls.cert", cert, "holds no certificate in PEM form; it needs the whole chain"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("tls.key", key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| RunError::other(format!("TLS cannot be set up: {error}")))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| {
            wrong("tls.key", key, &format!("does not fit the certificate in {}: {error}", cert.display()))
        })?;
    Ok(Arc::new(config))
}

fn unreadable(setting: &str, file: &Path, error: &rustls::pki_types::pem::Error) -> RunError {
    match error {
        rustls::pki_types::pem::Error::Io(error) => {
            wrong(setting, file, &format!("cannot be read: {error}; correct the path or its permissions"))
        }
        rustls::pki_types::pem::Error::NoItemsFound => {
            wrong(setting, file, "holds no private key in PEM form; give the key that belongs to tls.cert")
        }
        error => wrong(setting, file, &format!("is not PEM: {error}")),
    }
}

fn wrong(setting: &str, file: &Path, why: &str) -> RunError {
    RunError::Config(format!("{setting}: {} {why}", file.display()))
}
