//! The messages of a Node broker, from its files into our store: at the first start in its data folder, or by hand.
//! The files are read and never touched. A message whose id is known here stays as it is here, so that doing it
//! twice doubles nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::progress::Progress;
use crate::config::Storage;
use crate::domain::clock::Timestamp;
use crate::store::local::{Imported, KeptMessage};
use crate::store::node::{self, Broken, V1_DATABASE, V1_LINES, V2_DATABASE, V2_LINES};
use crate::store::sqlite::local::{Loaded, LocalStore};
use crate::store::sqlite::node_files;
use crate::store::sqlite::v2::V2Store;
use crate::store::{StoreError, v2};

/// The Node broker, when it has a database, looks at the lines no more: where both know a message, the database is
/// right.
const FILES: [&str; 4] = [V1_DATABASE, V1_LINES, V2_DATABASE, V2_LINES];
/// Messages in one transaction.
const CHUNK: usize = 500;

/// What became of the messages of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    pub file: &'static str,
    pub new: usize,
    /// Their ids were here already.
    pub known: usize,
    /// Older than `broker.messageTtlDays`.
    pub expired: usize,
    /// Lines or rows that make no message; the log names each.
    pub broken: usize,
    /// How many of the new ones are in which state.
    pub states: BTreeMap<&'static str, usize>,
    /// Of the second generation each message brings the key by which it is not sent twice.
    pub idempotency_keys: usize,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { file, new, known, expired, broken, .. } = self;
        let messages = if new == 1 { "message" } else { "messages" };
        write!(f, "{new} {messages} from {file}")?;
        let rest = [(known, "known already"), (expired, "expired"), (broken, "broken, see the log")];
        let rest: Vec<_> = rest
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        if rest.is_empty() { Ok(()) } else { write!(f, " ({})", rest.join(", ")) }
    }
}

/// Where the messages come from and go to.
#[derive(Debug)]
pub struct Takeover<'a> {
    pub store: &'a LocalStore,
    pub v2_store: V2Store,
    pub from: &'a Path,
    /// Our data folder.
    pub data: &'a Path,
    pub storage: Storage,
    /// What was stored then or before has expired.
    pub too_old: Timestamp,
    pub now: Timestamp,
    /// Ends it between two transactions.
    pub stop: CancellationToken,
}

impl Takeover<'_> {
    /// What a start in a Node broker's data folder does: each file once. `loaded` is what the JSONL store has found
    /// in its own.
    ///
    /// # Errors
    /// When a file cannot be read, or the store fails.
    pub async fn at_start(
        &self,
        loaded: Option<&Loaded>,
        progress: &mut Progress,
    ) -> Result<Vec<Taken>, RunError> {
        node_files::remove_copies(self.data);
        let mut taken = Vec::new();
        taken.extend(loaded.and_then(|loaded| opened(loaded, self.data)));
        for file in self.files() {
            let Some(is) =
                node_files::fingerprint(&self.from.join(file)).map_err(|error| self.failed(file, &error))?
            else {
                continue;
            };
            match self.store.takeover(file).await.map_err(|error| self.failed(file, &error))? {
                None => taken.extend(self.file(file, progress).await?),
                Some(was) if was == is => {}
                Some(_) => tracing::warn!(file, way_out = "redsyn-bridge import", "taken_over_file_changed"),
            }
        }
        taken.retain(|taken| *taken != Taken { file: taken.file, ..NOTHING });
        for Taken { file, new, known, expired, broken, .. } in &taken {
            tracing::info!(file, new, known, expired, broken, "taken_over");
        }
        Ok(taken)
    }

    /// Every file of the folder, whether it was taken over before or not. `progress` is told how many messages of
    /// how many are done.
    ///
    /// # Errors
    /// When there is none, one cannot be read, or the store fails.
    pub async fn by_hand(&self, progress: &mut Progress) -> Result<Vec<Taken>, RunError> {
        let mut taken = Vec::new();
        for file in self.files() {
            taken.extend(self.file(file, progress).await?);
        }
        Ok(taken)
    }

    /// The JSONL store reads the lines in its own folder as its own.
    fn files(&self) -> impl Iterator<Item = &'static str> {
        let own = self.storage == Storage::Jsonl && is_same(self.from, self.data);
        FILES.into_iter().filter(move |file| !(own && *file == V1_LINES))
    }

    async fn file(&self, file: &'static str, progress: &mut Progress) -> Result<Option<Taken>, RunError> {
        let failed = |error: StoreError| self.failed(file, &error);
        let path = self.from.join(file);
        let Some(was) = node_files::fingerprint(&path).map_err(failed)? else { return Ok(None) };
        let (scratch, stop) = (self.data.to_owned(), self.stop.clone());
        let read = in_background(move || open(file, &path, &scratch, was.changed, &stop)).await;
        let taken = match read.map_err(failed)? {
            Messages::V1(Some(messages)) => {
                let living = |kept: &KeptMessage| kept.stored.message.ts > self.too_old;
                self.chunks(file, messages, living, |chunk| self.store.import(chunk), progress).await
            }
            Messages::V2(Some(messages)) => {
                // How long they are kept depends on their state: the sweep knows.
                let store = |chunk| self.v2_store.import(chunk);
                let taken = self.chunks(file, messages, |_| true, store, progress).await;
                taken.map(|taken| Taken { idempotency_keys: taken.new, ..taken })
            }
            Messages::V1(None) | Messages::V2(None) => return Ok(None),
        }
        .map_err(failed)?;
        // The mark comes last: a takeover that was cut short is done again, and finds the ids known.
        if is_same(self.from, self.data) {
            self.store.taken_over(file, was, self.now).await.map_err(failed)?;
        }
        Ok(Some(taken))
    }

    /// Stores the messages some at a time, and stops between two transactions.
    async fn chunks<T: Send + 'static, F>(
        &self,
        file: &'static str,
        mut messages: node::Messages<T>,
        is_living: impl Fn(&T) -> bool,
        store: impl Fn(Vec<T>) -> F,
        progress: &mut Progress,
    ) -> Result<Taken, StoreError>
    where
        F: Future<Output = Result<Imported, StoreError>>,
    {
        let mut taken = Taken { file, ..NOTHING };
        let (all, mut done) = (messages.all, 0);
        loop {
            if self.stop.is_cancelled() {
                return Err(StoreError::Stopped);
            }
            let (rest, found) = in_background(move || {
                let found = messages.next(CHUNK);
                found.map(|found| (messages, found))
            })
            .await?;
            messages = rest;
            if found.is_empty() {
                return Ok(taken);
            }
            done += found.len();
            let mut living = Vec::with_capacity(found.len());
            for message in found {
                match message {
                    Ok(message) if is_living(&message) => living.push(message),
                    Ok(_) => taken.expired += 1,
                    Err(broken) => {
                        taken.broken += 1;
                        report(&self.from.join(file), &[broken]);
                    }
                }
            }
            let imported = store(living).await?;
            taken.new += imported.new;
            taken.known += imported.known;
            for (state, count) in imported.states {
                *taken.states.entry(state).or_default() += count;
            }
            progress.at(done, Some(all));
        }
    }

    fn failed(&self, file: &str, error: &StoreError) -> RunError {
        if self.stop.is_cancelled() && matches!(error, StoreError::Stopped) {
            return RunError::Stopped(format!(
                "stopped while taking over {}; doing it again takes the rest, and nothing twice",
                self.from.join(file).display()
            ));
        }
        let way_out = match error {
            StoreError::Full => "free some space",
            StoreError::Locked => "something is writing to it: stop the Node broker",
            _ => "restore it from a copy, or move it away to start without its messages",
        };
        RunError::other(format!("cannot take over {}: {error}; {way_out}", self.from.join(file).display()))
    }
}

const NOTHING: Taken =
    Taken { file: "", new: 0, known: 0, expired: 0, broken: 0, states: BTreeMap::new(), idempotency_keys: 0 };

/// What a file holds, of its generation.
enum Messages {
    V1(Option<node::Messages<KeptMessage>>),
    V2(Option<node::Messages<v2::StoredMessage>>),
}

fn open(
    file: &str,
    path: &Path,
    scratch: &Path,
    undated: Timestamp,
    stop: &CancellationToken,
) -> Result<Messages, StoreError> {
    Ok(match file {
        V1_DATABASE => Messages::V1(node_files::read_v1(path, scratch, stop)?),
        V2_DATABASE => Messages::V2(node_files::read_v2(path, scratch, stop)?),
        V2_LINES => Messages::V2(node::v2::read_lines(path, stop)?),
        _ => Messages::V1(node::v1::read_lines(path, undated, stop)?),
    })
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Other(error.to_string()))?
}

/// One line each, with the place and without the content.
fn report(path: &Path, broken: &[Broken]) {
    for Broken { place, why } in broken {
        tracing::warn!(file = %path.display(), %place, why, "message_skipped");
    }
}

/// What the JSONL store took over by opening its files; `None` when they were its own and in order.
pub fn opened(loaded: &Loaded, data: &Path) -> Option<Taken> {
    report(&data.join(V1_LINES), &loaded.broken);
    if let Some(copy) = &loaded.copy {
        tracing::warn!(copy = %copy.display(), "original_kept");
    }
    let broken = loaded.broken.len();
    let new = if loaded.is_foreign { loaded.messages } else { 0 };
    (loaded.is_foreign || broken > 0).then_some(Taken { file: V1_LINES, new, broken, ..NOTHING })
}

/// Whether both are the same folder, however they are written.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    real(a) == real(b)
}
