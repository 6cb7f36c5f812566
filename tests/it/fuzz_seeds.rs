//! What the fuzzers of `fuzz/` start from: the recorded cases and the vectors, a file for each piece of them, written
//! where `.ci/run` and docs/fuzzing.md look for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use redsyn_bridge::crypto::hmac;
use serde_json::Value;

/// Longer pieces slow a fuzzer down more than they teach it.
const LONGEST: usize = 4_096;

#[derive(Default)]
struct Seeds(BTreeMap<&'static str, BTreeSet<String>>);

impl Seeds {
    fn add(&mut self, targets: &[&'static str], text: impl Into<String>) {
        let text = text.into();
        for target in targets {
            self.0.entry(*target).or_default().insert(text.clone());
        }
    }

    /// Every text and every object in a value, whole.
    fn add_all(&mut self, targets: &[&'static str], value: &Value) {
        match value {
            Value::String(text) => self.add(targets, text),
            Value::Array(items) => items.iter().for_each(|item| self.add_all(targets, item)),
            Value::Object(members) => {
                self.add(targets, value.to_string());
                members.values().for_each(|member| self.add_all(targets, member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    // Some recorded values are nested more deeply than a tree may be.
    serde_json::from_str(&text).unwrap_or_default()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn seeds() -> Seeds {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Seeds::default();
    for file in files(&root.join("compat/cases")) {
        let case = json(&file);
        seeds.add(&["config"], case["config"].as_str().unwrap_or_default());
        for step in case["steps"].as_array().into_iter().flatten() {
            seeds.add(&["dsh_v1"], step["path"].as_str().unwrap_or_default());
            let generation = match step["sign"]["scheme"].as_str() {
                Some("v1") | None => "dsh_v1",
                Some(_) => "dsh_v2",
            };
            seeds.add(&[generation], step["body"]["json"].to_string());
            seeds.add(&[generation], step["body"]["canon"].to_string());
            seeds.add(&[generation], step["body"]["text"].as_str().unwrap_or_default());
            for message in step["expect"]["body"]["messages"].as_array().into_iter().flatten() {
                seeds.add(&["node_files"], message.to_string());
            }
        }
    }
    let vectors = json(&root.join("compat/vectors/vectors.json"));
    seeds.add_all(&["crypto", "redsyn"], &vectors);
    for folder in ["tests/config/relay/good", "tests/config/relay/bad"] {
        for file in files(&root.join(folder)) {
            seeds.add(&["config"], fs::read_to_string(file).unwrap());
        }
    }
    seeds.add(&["config"], fs::read_to_string(root.join("config.yaml")).unwrap());
    seeds.add(&["redsyn"], "https://hooks.example.com:8443/a?b#c");
    seeds.add(
        &["redsyn"],
        r#"{"allow":["ana","team:erp","org","org:globex"],"trust":"full","signed_only":true}"#,
    );
    seeds
}

#[test]
fn every_fuzzer_has_something_to_start_from() {
    let manifest = include_str!("../../fuzz/Cargo.toml");
    let declared: BTreeSet<&str> =
        manifest.split("[[bin]]").skip(1).map(|target| target.split('"').nth(1).unwrap()).collect();
    let seeds = seeds().0;
    assert_eq!(seeds.keys().copied().collect::<BTreeSet<_>>(), declared);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-seeds");
    for (target, texts) in seeds {
        let folder = folder.join(target);
        fs::create_dir_all(&folder).unwrap();
        let texts: Vec<_> = texts.iter().filter(|text| text.len() <= LONGEST).collect();
        assert!(texts.len() > 30, "{target}: {}", texts.len());
        for text in texts {
            let name = hmac::sha256_hex(b"seed", &[text.as_bytes()]);
            fs::write(folder.join(&name[..16]), text).unwrap();
        }
    }
}
