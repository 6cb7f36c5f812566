//! The messages of our store, written as the files of the Node broker: the way back to it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::RunError;
use crate::store::StoreError;
use crate::store::local::KeptMessage;
use crate::store::node::lines::LineFile;
use crate::store::node::{V1_DATABASE, V1_LINES, V2_DATABASE, V2_LINES, v1, v2};
use crate::store::sqlite::local::LocalStore;
use crate::store::sqlite::node_files::NodeDatabase;
use crate::store::sqlite::v2::V2Store;

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
    progress: &mut dyn FnMut(usize, Option<usize>),
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
    let first = write_v1(store, format, v1, progress).await?;
    let before = first.messages;
    let mut progress = |count, _| progress(before + count, None);
    Ok([first, write_v2(v2_store, format, v2, &mut progress).await?])
}

async fn write_v1(
    store: &LocalStore,
    format: Format,
    file: PathBuf,
    progress: &mut dyn FnMut(usize, Option<usize>),
) -> Result<HandedOver, RunError> {
    let failed = |error: StoreError| cannot_write(&file, &error);
    let mut out = match format {
        Format::Sqlite => Out::Database(NodeDatabase::v1(&file).map_err(failed)?),
        Format::Jsonl => Out::Lines(LineFile::create(&file).map_err(failed)?),
    };
    let (mut seq, mut messages, mut away) = (0, 0, 0);
    loop {
        let page = store.kept_after(seq, PAGE).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        seq = last.stored.seq;
        for KeptMessage { stored, .. } in &page {
            match &mut out {
                Out::Database(database) => database.add_v1(stored),
                Out::Lines(lines) => {
                    lines.add(&v1::PlainLine { seq: stored.seq, message: v1::Payload::of(stored) })
                }
            }
            .map_err(failed)?;
            messages += 1;
            away += usize::from(stored.inbox.is_none());
        }
        progress(messages, None);
    }
    out.finish().map_err(failed)?;
    Ok(HandedOver { file, messages, away })
}

async fn write_v2(
    store: &V2Store,
    format: Format,
    file: PathBuf,
    progress: &mut dyn FnMut(usize, Option<usize>),
) -> Result<HandedOver, RunError> {
    let failed = |error: StoreError| cannot_write(&file, &error);
    let mut out = match format {
        Format::Sqlite => Out::Database(NodeDatabase::v2(&file).map_err(failed)?),
        Format::Jsonl => Out::Lines(LineFile::create(&file).map_err(failed)?),
    };
    let (mut seq, mut messages, mut away) = (0, 0, 0);
    loop {
        let page = store.kept_after(seq, PAGE).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        seq = last.seq;
        for stored in &page {
            match &mut out {
                Out::Database(database) => database.add_v2(stored),
                Out::Lines(lines) => lines.add(&v2::Line { message: v2::Payload::of(stored) }),
            }
            .map_err(failed)?;
            messages += 1;
            away += usize::from(stored.inbox.is_none());
        }
        progress(messages, None);
    }
    out.finish().map_err(failed)?;
    Ok(HandedOver { file, messages, away })
}

fn cannot_write(file: &Path, error: &StoreError) -> RunError {
    RunError::other(format!("cannot write {}: {error}", file.display()))
}

enum Out {
    Database(NodeDatabase),
    Lines(LineFile),
}

impl Out {
    fn finish(self) -> Result<(), StoreError> {
        match self {
            Self::Database(database) => database.finish(),
            Self::Lines(lines) => lines.finish(),
        }
    }
}
