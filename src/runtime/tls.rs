//! The certificate and key of a relay that does its own TLS, read again when they are renewed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use tokio::sync::watch;

use super::error::RunError;
use super::signals::Hangups;
use crate::config::relay::TlsFiles;
use crate::domain::clock::SharedClock;

/// How often the files are looked at: whoever renews a certificate does so days before it ends.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The certificate in use, and the files it came from.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    current: watch::Sender<Arc<ServerConfig>>,
    /// The files as they were when the current certificate was read.
    read: [Stamp; 2],
    /// What was wrong with them at the last look, said once.
    wrong: Option<String>,
}

/// What changes with a file, also where it is replaced by another one.
type Stamp = Option<(SystemTime, u64)>;

impl Certificates {
    /// # Errors
    /// See [`server_config`].
    pub fn load(files: &TlsFiles) -> Result<Self, RunError> {
        // Before the files are read: a change in between is seen at the next look.
        let read = stamps(files);
        let current = watch::Sender::new(server_config(&files.cert, &files.key)?);
        Ok(Self { files: files.clone(), current, read, wrong: None })
    }

    /// What new connections are shown, now and after each renewal.
    pub fn subscribe(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.current.subscribe()
    }

    /// Looks at the files every minute and at each SIGHUP, for ever. Files that cannot be used change nothing: the old
    /// certificate stays, and they are looked at again.
    pub async fn renew(&mut self, clock: &SharedClock, hangups: &mut Hangups) {
        loop {
            tokio::select! {
                () = clock.sleep(LOOK_EVERY) => {}
                () = hangups.next() => {}
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let found = stamps(&self.files);
        if found == self.read {
            return;
        }
        match server_config(&self.files.cert, &self.files.key) {
            Ok(config) => {
                self.current.send_replace(config);
                (self.read, self.wrong) = (found, None);
                tracing::info!("relay_certificate_renewed");
            }
            Err(error) => {
                let error = error.to_string();
                if self.wrong.as_ref() != Some(&error) {
                    tracing::error!(%error, "relay_certificate_not_renewed: the old one stays in use");
                }
                self.wrong = Some(error);
            }
        }
    }
}

fn stamps(files: &TlsFiles) -> [Stamp; 2] {
    [&files.cert, &files.key].map(|file| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

/// Reads both files.
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
