//! `config.yaml` and `relay.yaml`.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::config::Config;
use redsyn_bridge::config::relay::RelayConfig;

/// Stands in every file where a secret may stand.
const SECRET: &str = "hunter2-correct-horse";

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // Fuzzers learn what they are compared with. What follows a secret, unlike what stands before it, cannot make it
    // something else, such as a key, which warnings name.
    if text.contains(SECRET) {
        return;
    }
    broker(&text);
    broker(&format!("broker:\n  secret: {SECRET}\n{text}"));
    broker(&format!("agents:\n  alpha:\n    secret: \"{SECRET}\"\n{text}"));
    broker(&format!("redsyn:\n  token: {SECRET}\n{text}"));
    if let Err(error) = RelayConfig::parse(&text, Path::new("relay.yaml")) {
        assert!(error.to_string().starts_with("relay.yaml"), "{error}");
    }
});

/// Neither what is refused nor what is warned of shows a secret, and what is understood does not print one.
fn broker(text: &str) {
    match Config::parse(text, Path::new("config.yaml")) {
        Ok(config) => assert!(!format!("{config:?}").contains(SECRET), "{config:?}"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("config.yaml") && !error.contains(SECRET), "{error}");
        }
    }
}
