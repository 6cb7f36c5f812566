//! The direction of dependencies, read from the sources: left knows nothing of right (see `src/lib.rs`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer and what it may use. `cli` and `main` may use everything.
const LAYERS: &[(&str, &[&str])] = &[
    ("crypto", &[]),
    ("proto", &["crypto"]),
    ("domain", &["crypto", "proto"]),
    ("config", &["crypto", "proto", "domain"]),
    ("store", &["crypto", "proto", "domain", "config"]),
    // Of no layer in particular: what its calls mean is told by whoever runs it, a node or a relay.
    ("admin", &["crypto", "domain"]),
    // What the two servers share below HTTP's meaning.
    ("intake", &["domain"]),
    ("broker", &["crypto", "proto", "domain", "config", "store", "intake"]),
    ("relay", &["crypto", "proto", "domain", "config", "store", "intake"]),
    ("redsyn_client", &["crypto", "proto", "domain", "config", "store"]),
    ("dsh_client", &["crypto", "proto", "domain", "config", "store"]),
    ("bridge", &["crypto", "proto", "domain", "config", "store", "broker", "redsyn_client"]),
    (
        "runtime",
        &[
            "crypto",
            "proto",
            "domain",
            "config",
            "store",
            "broker",
            "relay",
            "redsyn_client",
            "bridge",
            "admin",
        ],
    ),
];

/// Crates that only some places may name.
const CRATES: &[(&str, &[&str])] = &[
    ("axum", &["broker/http", "relay/http", "admin/http"]),
    ("hyper", &["broker/http", "relay/http", "intake"]),
    ("hyper_util", &["broker/http", "relay/http"]),
    ("http_body_util", &["broker/http", "relay/http"]),
    // `admin/client`: a command asks the running process over loopback.
    ("reqwest", &["redsyn_client", "dsh_client", "relay/webhooks", "admin/client"]),
    ("rusqlite", &["store/sqlite"]),
    ("granit_parser", &["config/yaml.rs"]),
    ("clap", &["cli", "main.rs"]),
];

/// Ways to the system's clock, and the places that may use them.
const CLOCKS: &[&str] = &["SystemTime::now", "Instant::now"];
const CLOCK_PLACES: &[&str] = &["domain/clock.rs", "runtime"];

/// The most lines of a source file, tests apart (docs of the style: 300 is a reason to split, 500 the limit).
const LONGEST_FILE: usize = 500;

struct Source {
    /// Relative to `src`, with `/`.
    path: String,
    /// Without comments, and without what follows `#[cfg(test)]`.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 20, "the sources were not found");
    files
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            Source { path, code: code.collect::<Vec<_>>().join("\n") }
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

fn layer(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap_or_default()
}

/// The layers that the code names through `crate::`, alone or in braces.
fn used_layers(code: &str) -> Vec<String> {
    let mut used = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => used.extend(first_level(list).into_iter().map(first_name)),
            None => used.push(first_name(rest)),
        }
    }
    used
}

fn first_name(path: &str) -> String {
    path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The members of a list in braces, up to its closing one.
fn first_level(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut members) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&list[from..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    members
}

fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
    })
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| {
        path == *place || path.starts_with(&format!("{place}/")) || path == format!("{place}.rs")
    })
}

#[test]
fn dependencies_point_one_way() {
    for source in sources() {
        let own = layer(&source.path);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == own) else {
            assert!(
                ["cli", "lib", "main"].contains(&own),
                "{} is in no layer: name it in LAYERS",
                source.path
            );
            continue;
        };
        for used in used_layers(&source.code) {
            let known = LAYERS.iter().any(|(name, _)| *name == used) || used == "cli";
            assert!(
                used == own || allowed.contains(&used.as_str()) || !known,
                "src/{} uses crate::{used}, which lies to the right of {own}",
                source.path
            );
        }
    }
}

#[test]
fn each_outside_crate_stays_in_its_place() {
    for source in sources() {
        for (name, places) in CRATES {
            assert!(
                is_in(&source.path, places) || !names_crate(&source.code, name),
                "src/{} names {name}, which only {places:?} may",
                source.path
            );
        }
        for clock in CLOCKS {
            assert!(
                is_in(&source.path, CLOCK_PLACES) || !source.code.contains(clock),
                "src/{} reads the system clock: take a Clock",
                source.path
            );
        }
    }
}

/// The macros panic when the reader has gone away, and `serve` must outlive it.
#[test]
fn only_the_printer_prints() {
    for source in sources() {
        let prints =
            ["print!(", "println!(", "eprint!(", "eprintln!("].iter().any(|m| source.code.contains(m));
        assert!(!prints, "src/{} prints by itself: use cli::print", source.path);
    }
}

#[test]
fn files_stay_small() {
    for source in sources() {
        let lines = source.code.lines().count();
        assert!(lines <= LONGEST_FILE, "src/{} has {lines} lines: split it", source.path);
    }
}

#[test]
fn the_checks_see_what_they_forbid() {
    assert_eq!(used_layers("use crate::bridge::x; crate::{relay::{a, b}, y}"), ["bridge", "relay", "y"]);
    assert!(names_crate("use axum::Router;", "axum"));
    assert!(!names_crate("my_axum::x(); a::axum::y()", "axum"));
    assert!(is_in("broker/http/mod.rs", &["broker/http"]));
    assert!(!is_in("broker/https.rs", &["broker/http"]));
}
