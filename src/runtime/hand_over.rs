//! The messages of our store, written as the files of the Node broker: the way back to it.

use std::future::Future;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::progress::Progress;
use crate::store::StoreError;
use crate::store::disk::Unfinished;
use crate::store::local::KeptMessage;
use crate::store::node::lines::LineFile;
use crate::store::node::{V1_DATABASE, V1_LINES, V2_DATABASE, V2_LINES, v1, v2};
use crate::store::sqlite::local::LocalStore;
use crate::store::sqlite::node_files::NodeDatabase;
use crate::store::sqlite::v2::V2Store;
use crate::store::v2::StoredMessage;

/// Messages read at once.
const PAGE: u32 = 500;

/// Which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Sqlite,
    Jsonl,
}

impl Format {
    const fn files(self) -> [&'static str; 2] {
        match self {
            Self::Sqlite => [V1_DATABASE, V2_DATABASE],
            Self::Jsonl => [V1_LINES, V2_LINES],
        }
    }
}

/// What was written into a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandedOver {
    pub file: PathBuf,
    pub messages: usize,
    /// Of these, mail of agents here for somebody beyond the machine. The Node broker keeps it and delivers it to
    /// nobody.
    pub away: usize,
}

/// Writes all messages into `folder`, a file for each generation. `progress` is told how many are done.
///
/// # Errors
/// When a file is there already or cannot be written, or the store fails.
pub async fn hand_over(
    store: &LocalStore,
    v2_store: &V2Store,
    format: Format,
    folder: &Path,
    progress: &mut Progress,
    stop: &CancellationToken,
) -> Result<[HandedOver; 2], RunError> {
    let [v1, v2] = format.files().map(|file| folder.join(file));
    if let Some(file) = [&v1, &v2].into_iter().find(|file| file.exists()) {
        return Err(RunError::other(format!(
            "{} exists: nothing is overwritten; choose another folder with --to",
            file.display()
        )));
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| RunError::other(format!("cannot make {}: {error}", folder.display())))?;
    let mut done = 0;
    let mut at = || {
        done += 1;
        progress.at(done, None);
        if stop.is_cancelled() { Err(stopped(folder)) } else { Ok(()) }
    };
    let (first, v1) = write(|seq| store.kept_after(seq, PAGE), format, v1, &mut at).await?;
    let (second, v2) = write(|seq| v2_store.kept_after(seq, PAGE), format, v2, &mut at).await?;
    at()?;
    // Both get their names, or none: a folder with one of them looks whole.
    first.finish().map_err(|error| cannot_write(&v1.file, &error))?;
    if let Err(error) = second.finish() {
        let _ = std::fs::remove_file(&v1.file);
        return Err(cannot_write(&v2.file, &error));
    }
    Ok([v1, v2])
}

fn stopped(folder: &Path) -> RunError {
    RunError::Stopped(format!("stopped: nothing was left in {}", folder.display()))
}

fn cannot_write(file: &Path, error: &StoreError) -> RunError {
    RunError::other(format!("cannot write {}: {error}", file.display()))
}

/// Writes one generation, page by page, into a file that has no name yet: `after` gives the messages that follow a
/// number. `at` is asked after each whether to go on.
async fn write<M: Kept, F>(
    after: impl Fn(i64) -> F,
    format: Format,
    file: PathBuf,
    at: &mut impl FnMut() -> Result<(), RunError>,
) -> Result<(Unfinished, HandedOver), RunError>
where
    F: Future<Output = Result<Vec<M>, StoreError>>,
{
    let failed = |error: StoreError| cannot_write(&file, &error);
    let mut out = match format {
        Format::Sqlite => Out::Database(M::database(&file).map_err(failed)?),
        Format::Jsonl => Out::Lines(LineFile::create(&file).map_err(failed)?),
    };
    let (mut seq, mut messages, mut away) = (0, 0, 0);
    loop {
        let page = after(seq).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        seq = last.seq();
        for message in &page {
            match &mut out {
                Out::Database(database) => message.add_row(database),
                Out::Lines(lines) => message.add_line(lines),
            }
            .map_err(failed)?;
            at()?;
            messages += 1;
            away += usize::from(message.is_away());
        }
    }
    let written = out.written().map_err(failed)?;
    Ok((written, HandedOver { file, messages, away }))
}

/// A message of one generation, as the Node broker's files have it.
trait Kept: Sized {
    fn database(file: &Path) -> Result<NodeDatabase, StoreError>;
    fn seq(&self) -> i64;
    /// Whether it is for somebody beyond the machine.
    fn is_away(&self) -> bool;
    fn add_row(&self, database: &mut NodeDatabase) -> Result<(), StoreError>;
    fn add_line(&self, lines: &mut LineFile) -> Result<(), StoreError>;
}

impl Kept for KeptMessage {
    fn database(file: &Path) -> Result<NodeDatabase, StoreError> {
        NodeDatabase::v1(file)
    }

    fn seq(&self) -> i64 {
        self.stored.seq
    }

    fn is_away(&self) -> bool {
        self.stored.inbox.is_none()
    }

    fn add_row(&self, database: &mut NodeDatabase) -> Result<(), StoreError> {
        database.add_v1(&self.stored)
    }

    fn add_line(&self, lines: &mut LineFile) -> Result<(), StoreError> {
        lines.add(&v1::PlainLine { seq: self.stored.seq, message: v1::Payload::of(&self.stored) })
    }
}

impl Kept for StoredMessage {
    fn database(file: &Path) -> Result<NodeDatabase, StoreError> {
        NodeDatabase::v2(file)
    }

    fn seq(&self) -> i64 {
        self.seq
    }

    fn is_away(&self) -> bool {
        self.inbox.is_none()
    }

    fn add_row(&self, database: &mut NodeDatabase) -> Result<(), StoreError> {
        database.add_v2(self)
    }

    fn add_line(&self, lines: &mut LineFile) -> Result<(), StoreError> {
        lines.add(&v2::Line { message: v2::Payload::of(self) })
    }
}

enum Out {
    Database(NodeDatabase),
    Lines(LineFile),
}

impl Out {
    fn written(self) -> Result<Unfinished, StoreError> {
        match self {
            Self::Database(database) => database.written(),
            Self::Lines(lines) => lines.written(),
        }
    }
}
