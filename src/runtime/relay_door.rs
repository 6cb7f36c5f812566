//! How an operator's command reaches the relay: the store when nobody owns it, else the door of the relay that does.
//! The door's address and token lie in the data folder, for its owner's eyes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::data_folder::DataFolder;
use super::error::RunError;
use super::listen::listen;
use super::secrets;
use crate::crypto::secret::Secret;
use crate::domain::clock::Clock;
use crate::domain::random::Random;
use crate::relay::admin::AdminCommand;
use crate::relay::{Service, ask_admin, serve_admin};

const FILE: &str = "relay-admin.json";

/// How long a command under way may take once the relay stops.
const GRACE: Duration = Duration::from_millis(500);

#[derive(Serialize, Deserialize)]
struct Sign {
    address: SocketAddr,
    token: String,
}

/// An open door.
#[derive(Debug)]
pub struct Door {
    file: PathBuf,
    /// `None` once its end has been told.
    serving: Option<JoinHandle<std::io::Result<()>>>,
    stop: CancellationToken,
}

impl Door {
    /// Opens a door on a free port of loopback.
    ///
    /// # Errors
    /// When it cannot listen, or its file cannot be written.
    pub async fn open(folder: &Path, service: Arc<Service>, random: &dyn Random) -> Result<Self, RunError> {
        let (listener, address) = listen("127.0.0.1:0", "the firewall").await?;
        let token = Secret::new(random.hex::<32>());
        let file = folder.join(FILE);
        let sign = Sign { address, token: token.expose().to_owned() };
        let text = serde_json::to_string(&sign).map_err(|error| RunError::other(error.to_string()))?;
        secrets::keep_token(&file, &Secret::new(text))?;
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_admin(listener, service, token, stop.clone().cancelled_owned()));
        Ok(Self { file, serving: Some(serving), stop })
    }

    /// Resolves when the door ends by itself: only by a failure.
    ///
    /// # Errors
    /// Why it ended.
    pub async fn ended(&mut self) -> Result<(), RunError> {
        let Some(serving) = &mut self.serving else { return std::future::pending().await };
        let why = match serving.await {
            Ok(Ok(())) => "it was told to".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.serving = None;
        Err(RunError::other(format!("the relay's door for operators ended: {why}")))
    }

    /// Lets a command under way finish, but not for long.
    pub async fn close(mut self, clock: &dyn Clock) {
        self.stop.cancel();
        if let Err(error) = std::fs::remove_file(&self.file) {
            tracing::warn!(%error, "relay_admin_file_not_removed");
        }
        let Some(serving) = &mut self.serving else { return };
        tokio::select! {
            ended = &mut *serving => if let Ok(Err(error)) = ended {
                tracing::warn!(%error, "relay_admin_failed");
            },
            () = clock.sleep(GRACE) => serving.abort(),
        }
    }
}

/// Sends a command to the relay that owns `folder`. `None` when nobody owns it, or whoever does has no door.
///
/// # Errors
/// Its refusal, or that it does not answer.
pub async fn ask(folder: &Path, command: &AdminCommand) -> Result<Option<Value>, RunError> {
    if !DataFolder::is_owned(folder) {
        return Ok(None);
    }
    let Some(sign) = secrets::known_token(&folder.join(FILE))? else { return Ok(None) };
    let sign: Sign = serde_json::from_str(sign.expose()).map_err(|_| {
        RunError::other(format!("{} cannot be read: restart the relay", folder.join(FILE).display()))
    })?;
    let token = Secret::new(sign.token);
    ask_admin(sign.address, &token, command).await.map(Some).map_err(RunError::other)
}
