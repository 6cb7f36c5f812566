//! The messages of our store, written as the files of the Node broker: the way back to it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::RunError;
use crate::store::StoreError;
use crate::store::local::KeptMessage;
use crate::store::node::lines::LineFile;
use crate::store::node::v1::{Payload, PlainLine};
use crate::store::node::{V1_DATABASE, V1_LINES};
use crate::store::sqlite::local::LocalStore;
use crate::store::sqlite::node_files::NodeDatabase;

/// Messages read at once.
const PAGE: u32 = 500;

/// Which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Sqlite,
    Jsonl,
}

impl Format {
    const fn file(self) -> &'static str {
        match self {
            Self::Sqlite => V1_DATABASE,
            Self::Jsonl => V1_LINES,
        }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandedOver {
    pub file: PathBuf,
    pub messages: usize,
    /// Of these, mail of agents here for somebody beyond the machine. The Node broker keeps it and delivers it to
    /// nobody.
    pub away: usize,
}

/// Writes all messages into `folder`. `progress` is told how many of how many are done.
///
/// # Errors
/// When the file is there already or cannot be written, or the store fails. Then no file of that name has appeared.
pub async fn hand_over(
    store: &LocalStore,
    format: Format,
    folder: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<HandedOver, RunError> {
    let file = folder.join(format.file());
    let failed = |error: StoreError| RunError::other(format!("cannot write {}: {error}", file.display()));
    if file.exists() {
        return Err(RunError::other(format!(
            "{} exists: nothing is overwritten; choose another folder with --to",
            file.display()
        )));
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| RunError::other(format!("cannot make {}: {error}", folder.display())))?;
    let all = store.count().await.map_err(failed)?;
    let mut out = Out::create(format, &file).map_err(failed)?;
    let (mut seq, mut messages, mut away) = (0, 0, 0);
    loop {
        let page = store.kept_after(seq, PAGE).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        seq = last.stored.seq;
        for kept in &page {
            out.add(kept).map_err(failed)?;
            messages += 1;
            away += usize::from(kept.stored.inbox.is_none());
        }
        progress(messages, all);
    }
    out.finish().map_err(failed)?;
    Ok(HandedOver { file, messages, away })
}

enum Out {
    Database(NodeDatabase),
    Lines(LineFile),
}

impl Out {
    fn create(format: Format, path: &Path) -> Result<Self, StoreError> {
        Ok(match format {
            Format::Sqlite => Self::Database(NodeDatabase::v1(path)?),
            Format::Jsonl => Self::Lines(LineFile::create(path)?),
        })
    }

    fn add(&mut self, KeptMessage { stored, .. }: &KeptMessage) -> Result<(), StoreError> {
        match self {
            Self::Database(database) => database.add_v1(stored),
            Self::Lines(lines) => lines.add(&PlainLine { seq: stored.seq, message: Payload::of(stored) }),
        }
    }

    fn finish(self) -> Result<(), StoreError> {
        match self {
            Self::Database(database) => database.finish(),
            Self::Lines(lines) => lines.finish(),
        }
    }
}
