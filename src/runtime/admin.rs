//! Opens the admin endpoint of this process and names it in the data folder; finds the one of another process.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::data_folder::DataFolder;
use super::error::RunError;
use super::secrets;
use crate::admin::{Administrator, Endpoint, FILE, http};
use crate::crypto::secret::Secret;
use crate::domain::clock::SharedClock;
use crate::domain::random::Random;

/// How long commands under way may take once the process stops: all of it must end within five seconds.
const GRACE: Duration = Duration::from_millis(1500);

/// The file that names our endpoint; removed when this is dropped.
#[derive(Debug)]
pub struct AdminFile(PathBuf);

impl Drop for AdminFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "admin_file_not_removed");
        }
    }
}

/// Listens on a free port of loopback for the time of `stop`, and writes `admin.json` in place of a stale one.
///
/// # Errors
/// When no port or no file can be had.
pub async fn open(
    folder: &DataFolder,
    administrator: Arc<dyn Administrator>,
    random: &dyn Random,
    clock: SharedClock,
    stop: CancellationToken,
    tasks: &mut JoinSet<Result<(), RunError>>,
) -> Result<AdminFile, RunError> {
    let cannot = |error: std::io::Error| RunError::other(format!("cannot open the admin endpoint: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let token = Secret::new(random.hex::<32>());
    let endpoint = Endpoint { address, token: token.clone(), process: std::process::id() };
    let file = folder.file(FILE);
    secrets::write_over(&file, &endpoint.to_text())?;
    tasks.spawn(async move {
        let cut = async {
            stop.cancelled().await;
            clock.sleep(GRACE).await;
        };
        let served = http::serve(listener, administrator, token, stop.clone().cancelled_owned(), cut).await;
        served.map_err(|error| RunError::other(format!("the admin endpoint ended: {error}")))
    });
    Ok(AdminFile(file))
}

/// The endpoint that is named in a data folder; none when there is no file, or one that makes no sense.
pub fn find(folder: &Path) -> Option<Endpoint> {
    Endpoint::parse(&std::fs::read_to_string(folder.join(FILE)).ok()?)
}

/// Removes what a process has left that did not stop in an orderly way. Only for who holds the folder's lock.
pub fn remove_stale(folder: &DataFolder) {
    match std::fs::remove_file(folder.file(FILE)) {
        Ok(()) => tracing::info!("stale_admin_file_removed"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, "stale_admin_file_not_removed"),
    }
}
