//! The shared vectors: every strict case passes, and a wrong one in any section is noticed by the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use redsyn_bridge::cli::vectors::{Outcome, check};
use serde_json::{Value, json};

const SECTIONS: [(&str, usize); 12] = [
    ("addresses.parse", 30),
    ("addresses.resolve", 36),
    ("canonical", 150),
    ("canonical_rejects", 13),
    ("signing", 11),
    ("relay_checks", 32),
    ("receiver_checks", 28),
    ("enc_key_registrations", 7),
    ("key_answers", 8),
    ("sealed", 9),
    ("sealed_rejects", 16),
    ("webhooks", 20),
];

fn vectors_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compat/vectors/vectors.json")
}

fn vectors() -> Value {
    serde_json::from_slice(&std::fs::read(vectors_file()).unwrap()).unwrap()
}

/// Asserts every strict case of one section by itself.
fn every_strict_case_of(section: &str) {
    let report = check(&std::fs::read(vectors_file()).unwrap()).unwrap();
    let expected = SECTIONS.iter().find(|(name, _)| *name == section).unwrap().1;
    let mut seen = 0;
    for case in report.cases.iter().filter(|case| case.strict && case.section == section) {
        assert_eq!(case.outcome, Outcome::Passed, "{section}[{}] {}", case.index, case.name);
        seen += 1;
    }
    assert_eq!(seen, expected, "a case was lost on the way");
}

macro_rules! sections {
    ($($test:ident: $section:literal,)+) => {$(
        #[test]
        fn $test() {
            every_strict_case_of($section);
        }
    )+};
}

sections! {
    addresses_parse: "addresses.parse",
    addresses_resolve: "addresses.resolve",
    canonical: "canonical",
    canonical_rejects: "canonical_rejects",
    signing: "signing",
    relay_checks: "relay_checks",
    receiver_checks: "receiver_checks",
    enc_key_registrations: "enc_key_registrations",
    key_answers: "key_answers",
    sealed: "sealed",
    sealed_rejects: "sealed_rejects",
    webhooks: "webhooks",
}

fn run(file: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redsyn-bridge")).arg("vectors").arg(file).args(more).output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

/// Runs the command on a copy of the vectors with one case changed.
fn run_changed(section: &str, index: usize, change: impl FnOnce(&mut Value), more: &[&str]) -> Output {
    let mut file = vectors();
    change(&mut file.pointer_mut(&format!("/{}", section.replace('.', "/"))).unwrap()[index]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.json");
    std::fs::write(&path, file.to_string()).unwrap();
    run(&path, more)
}

/// That exactly this case fails, and that its one line says what was expected.
fn fails_alone(section: &str, index: usize, expected: &str, change: impl FnOnce(&mut Value)) {
    let output = run_changed(section, index, change, &[]);
    let lines = lines(&output);
    assert_eq!(output.status.code(), Some(1), "{section}: {lines:?}");
    assert_eq!(lines.len(), 3, "{section}: {lines:?}");
    assert!(lines[0].starts_with(&format!("{section}[{index}] \"")), "{}", lines[0]);
    assert!(lines[0].contains(&format!(": expected {expected}")), "{section}: {}", lines[0]);
    assert!(lines[0].contains(", got "), "{}", lines[0]);
    assert_eq!(lines[2], "359 passed, 1 failed");
}

fn flip(name: &'static str) -> impl FnOnce(&mut Value) {
    move |case| case[name] = json!(!case[name].as_bool().unwrap())
}

/// Changes the character in the middle of the text at `pointer`.
fn alter(pointer: &'static str) -> impl FnOnce(&mut Value) {
    move |case| {
        let text = case.pointer_mut(pointer).unwrap();
        let mut chars: Vec<char> = text.as_str().unwrap().chars().collect();
        let middle = chars.len() / 2;
        chars[middle] = if chars[middle] == 'a' { 'b' } else { 'a' };
        *text = json!(chars.into_iter().collect::<String>());
    }
}

fn index_of(section: &str, name: &str) -> usize {
    vectors()[section].as_array().unwrap().iter().position(|case| case["name"] == name).unwrap()
}

#[test]
fn the_command_passes_on_the_shared_vectors() {
    let output = run(&vectors_file(), &[]);
    assert_eq!(lines(&output), ["informative: 8 agree, 0 differ", "360 passed, 0 failed"]);
    assert_eq!(output.status.code(), Some(0));
    let total: usize = SECTIONS.iter().map(|(_, strict)| strict).sum();
    assert_eq!(total, 360);
}

#[test]
fn a_wrong_answer_is_noticed_in_every_section() {
    fails_alone("addresses.parse", 0, "refused", flip("valid"));
    fails_alone("addresses.parse", 1, "session", |case| case["session"] = json!("s1"));
    fails_alone("addresses.parse", 12, "accepted", flip("valid"));
    fails_alone("addresses.resolve", 1, "address", alter("/resolved"));
    fails_alone("canonical", 4, "canonical", |case| case["canonical"] = json!("[1.50]"));
    fails_alone("canonical", 4, "sha256", alter("/sha256"));
    fails_alone("canonical_rejects", 0, "refused", |case| case["input"] = json!("{\"a\":1}"));
    fails_alone("signing", 2, "payload", alter("/payload"));
    fails_alone("signing", 2, "sig", alter("/sig/value"));
    fails_alone("relay_checks", 0, "accepted", |case| case["relay_now"] = json!(0));
    fails_alone("relay_checks", 3, "accepted", flip("valid"));
    fails_alone("receiver_checks", 0, "accepted", alter("/envelope/body/text"));
    fails_alone("receiver_checks", 0, "person", |case| case["person"] = json!("acme/ana"));
    fails_alone("enc_key_registrations", 0, "accepted", |case| case["registration"]["enc_sig"] = json!("AA"));
    fails_alone("key_answers", 0, "pinned", |case| case["expect"] = json!("pinned"));
    fails_alone("sealed_rejects", index_of("sealed_rejects", "moved to another kind"), "refused", |case| {
        case["kind"] = json!("request");
    });
    fails_alone("webhooks", 0, "accepted", alter("/body"));
}

#[test]
fn every_step_of_sealing_is_checked() {
    let files = index_of("sealed", "files");
    for (pointer, expected) in [
        ("/recipient_enc_key", "reading recipient_enc_key to work"),
        ("/shared_secret", "shared_secret"),
        ("/derived_key", "derived_key"),
        ("/aad", "aad"),
        ("/files_aad", "files_aad"),
        ("/plaintext", "body"),
        ("/body/enc/ct", "body"),
        ("/body/enc/epk", "body"),
        ("/nonce", "body"),
        ("/files_nonce", "body"),
        ("/sealed_files_zip", "sealed_files_zip"),
        ("/opened/body/type", "opened"),
        ("/opened/reply_key", "opened"),
    ] {
        fails_alone("sealed", files, expected, alter(pointer));
    }
}

#[test]
fn a_case_without_what_it_needs_fails() {
    fails_alone("sealed", 0, "a text in \"id\"", |case| case["id"] = Value::Null);
}

#[test]
fn cases_that_are_not_strict_are_only_counted() {
    let index = vectors()["canonical"].as_array().unwrap().iter().position(|case| case["strict"] == false);
    let output = run_changed("canonical", index.unwrap(), |case| case["canonical"] = json!("[0]"), &[]);
    assert_eq!(lines(&output), ["informative: 7 agree, 1 differ", "360 passed, 0 failed"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_machine_form_says_the_same() {
    let output = run_changed("sealed", 1, alter("/derived_key"), &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["passed"], &report["failed"]), (&json!(359), &json!(1)));
    assert_eq!(report["failures"][0]["section"], "sealed");
    assert_eq!(report["failures"][0]["index"], 1);
    assert_eq!(report["informative"]["agree"], 8);
}

#[test]
fn what_is_no_file_of_vectors_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.json");
    for (content, said) in [
        ("garbage", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "none of the sections"),
        (r#"{"sealed":[1]}"#, "\"sealed\" is not a list of objects"),
    ] {
        std::fs::write(&garbage, content).unwrap();
        let output = run(&garbage, &[]);
        let sentence = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        assert!(sentence.contains(said) && sentence.lines().count() == 1, "{sentence}");
    }
    assert_eq!(run(&folder.path().join("missing.json"), &[]).status.code(), Some(2));
}
