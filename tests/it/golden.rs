//! Plays the recorded cases of the Node broker against our binary and compares the answers.
//! `GOLDEN=part-of-an-id` plays only the cases whose id contains the text.

pub mod broker;
mod case;
pub mod client;
mod compare;
mod json;
mod normalize;
mod play;
mod request;
mod sign;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, Storage};

/// Cases that wait for longer than this are played by a test of their own.
const LONG_WAIT_MS: u64 = 3000;
/// All that were recorded.
const RECORDED: usize = 139;
/// Cases at a time: they mostly wait, for the disk and for the next millisecond.
const LANES: usize = 8;

#[test]
fn recorded_cases_are_answered_as_recorded() {
    play_all(cases().into_iter().filter(is_short).collect());
}

/// Most cases were recorded in memory; what a store answers must not depend on where it keeps things.
#[test]
fn recorded_cases_are_answered_the_same_from_a_database() {
    play_all(
        cases().into_iter().filter(is_short).filter_map(|case| case.stored_in(Storage::Sqlite)).collect(),
    );
}

#[test]
fn recorded_cases_are_answered_the_same_from_lines() {
    play_all(
        cases().into_iter().filter(is_short).filter_map(|case| case.stored_in(Storage::Jsonl)).collect(),
    );
}

#[test]
#[ignore = "waits for up to 92 seconds; the same rules are tested with a clock that is moved"]
fn recorded_cases_that_wait_for_minutes() {
    let long = || cases().into_iter().filter(|case| !is_short(case));
    let stored = [Storage::Sqlite, Storage::Jsonl].into_iter();
    let stored = stored.flat_map(|storage| long().filter_map(move |case| case.stored_in(storage)));
    play_all(long().chain(stored).collect());
}

fn is_short(case: &Case) -> bool {
    case.waits_ms() < LONG_WAIT_MS
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compat/cases")
}

fn cases() -> Vec<Case> {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), RECORDED, "a case was lost, or is new");
    let cases = files.iter().map(|file| Case::load(file));
    cases.filter(|case| case.id.contains(&only)).collect()
}

fn play_all(cases: Vec<Case>) {
    let all = cases.len();
    let played = AtomicUsize::new(0);
    let queue = Mutex::new(cases.into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            // A recorded body is nested a thousand deep; reading it takes stack.
            let lane = std::thread::Builder::new().stack_size(64 << 20);
            lane.spawn_scoped(scope, || {
                while let Some(case) = { queue.lock().unwrap().next() } {
                    let differences = play::play(&case);
                    played.fetch_add(1, Ordering::Relaxed);
                    failures.lock().unwrap().extend(differences);
                }
            })
            .unwrap();
        }
    });
    assert_eq!(played.into_inner(), all);
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}
