//! Reading `messages.jsonl`, whoever has written it.

use std::path::Path;

use rusqlite::Connection;

use super::{Found, Tidiness, raise};
use crate::domain::clock::Timestamp;
use crate::store::StoreError;
use crate::store::jsonl::Mark;
use crate::store::jsonl::mail::{self, MailLine};
use crate::store::node::lines::{Line, Lines};
use crate::store::node::{Broken, Place};
use crate::store::sqlite::local::keep;
use crate::store::sqlite::node_files;

pub(super) fn load(conn: &Connection, path: &Path, found: &mut Found) -> Result<(), StoreError> {
    MailLoader::new(conn, found).load(path)
}

struct MailLoader<'a> {
    conn: &'a Connection,
    found: &'a mut Found,
    /// The lines of the batch that is being read.
    pending: Vec<(usize, MailLine)>,
    /// Behind the last line that counts.
    end: u64,
    /// Behind that stands something that does not.
    has_dropped: bool,
    applied: usize,
    highest: i64,
}

impl<'a> MailLoader<'a> {
    const fn new(conn: &'a Connection, found: &'a mut Found) -> Self {
        Self { conn, found, pending: Vec::new(), end: 0, has_dropped: false, applied: 0, highest: 0 }
    }

    fn load(mut self, path: &Path) -> Result<(), StoreError> {
        let Some(lines) = Lines::of_file(path)? else { return Ok(()) };
        // The only time to be had for messages that tell none.
        let undated = node_files::fingerprint(path)?.map_or(Timestamp::default(), |print| print.changed);
        self.conn.execute_batch("BEGIN")?;
        for line in lines {
            self.line(line.map_err(|error| StoreError::io("read", path, &error))?, undated)?;
        }
        self.drop_pending();
        if self.has_dropped {
            self.found.cut_mail = Some(self.end);
        }
        raise(self.conn, "messages", self.highest)?;
        self.conn.execute_batch("COMMIT")?;
        let count: i64 = self.conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
        self.found.loaded.messages = usize::try_from(count).unwrap_or_default();
        if self.applied > self.found.loaded.messages {
            self.untidy(Tidiness::Untidy);
        }
        Ok(())
    }

    fn line(&mut self, line: Line, undated: Timestamp) -> Result<(), StoreError> {
        let parsed = match line.text.as_deref() {
            Some("") => return Ok(()),
            Some(text) => mail::parse(text, undated),
            None => Err("no text"),
        };
        let mark = parsed.as_ref().ok().and_then(|parsed| parsed.mark);
        if !mark.is_some_and(|mark| self.last_mark().is_some_and(|last| mark.follows(last))) {
            self.drop_pending();
        }
        match (parsed, mark) {
            // The end that a crash has left. Another broker's last line may just lack its end.
            (Err(_), _) | (_, Some(_)) if !line.ended => self.has_dropped = true,
            (Err(why), _) => {
                self.broken(line.number, why);
                self.counts(&line);
            }
            (Ok(parsed), None) => {
                self.pending.push((line.number, parsed));
                self.apply_pending()?;
                self.counts(&line);
                if !line.ended {
                    self.untidy(Tidiness::Unusable);
                }
            }
            (Ok(parsed), Some(mark)) => {
                self.found.batch = self.found.batch.max(mark.batch);
                self.pending.push((line.number, parsed));
                if mark.left == 0 && (!mark.rows || mark.batch <= self.found.rows_batch) {
                    self.apply_pending()?;
                    self.counts(&line);
                }
            }
        }
        Ok(())
    }

    fn last_mark(&self) -> Option<Mark> {
        self.pending.last().and_then(|(_, last)| last.mark)
    }

    /// A batch that was never finished.
    fn drop_pending(&mut self) {
        self.has_dropped |= !self.pending.is_empty();
        self.pending.clear();
    }

    /// The file is good up to here. What was dropped before cannot be cut off any more: another broker has written
    /// behind it.
    fn counts(&mut self, line: &Line) {
        if std::mem::take(&mut self.has_dropped) {
            self.untidy(Tidiness::Unusable);
        }
        self.end = line.end;
    }

    fn untidy(&mut self, tidiness: Tidiness) {
        self.found.tidiness = self.found.tidiness.max(tidiness);
    }

    fn broken(&mut self, line: usize, why: &'static str) {
        self.found.loaded.broken.push(Broken { place: Place::Line(line), why });
        self.untidy(Tidiness::Untidy);
    }

    fn apply_pending(&mut self) -> Result<(), StoreError> {
        for (number, line) in std::mem::take(&mut self.pending) {
            self.applied += 1;
            if let Err(why) = self.apply(&line.change)? {
                self.broken(number, why);
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: &mail::Change) -> Result<Result<(), &'static str>, StoreError> {
        let (seq, kept) = match change {
            mail::Change::Kept(kept) => (kept.stored.seq, Some(kept)),
            mail::Change::Gone { seq } => (*seq, None),
        };
        self.highest = self.highest.max(seq);
        self.conn.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([seq])?;
        let Some(kept) = kept else { return Ok(Ok(())) };
        Ok(if keep::insert(self.conn, kept, Some(seq))? {
            Ok(())
        } else {
            Err("its id is another message's")
        })
    }
}
