//! `relay.yaml`: files that are read, and files that are refused with the words in their first line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redsyn_bridge::config::relay::RelayConfig;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/relay").join(name)
}

#[test]
fn every_key_is_read() {
    let config = RelayConfig::load(&folder("good/everything.yaml")).unwrap();
    assert_eq!(config.listen, "0.0.0.0:8443".parse().unwrap());
    assert_eq!(config.data_dir, folder("good").join("./relay-data"), "relative to the file");
    let proxies: Vec<String> = config.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["127.0.0.1/32", "10.0.0.0/8", "2001:db8::/32"]);
    let free = config.plans.get("free");
    assert_eq!(
        (free.messages_per_day, free.files_bytes, free.ttl_secs),
        (Some(10), Some(1 << 20), 2 * 86_400)
    );
    assert_eq!((free.agents, free.links, free.webhooks), (Some(1), Some(0), Some(0)));
    let staff = config.plans.get("staff");
    assert_eq!((staff.agents, staff.files_bytes), (None, None));
    assert_eq!(staff.messages_per_day, Some(10), "a new plan starts from the tightest");
    assert_eq!(config.plans.get("pro").agents, Some(100));
    let tls = config.tls.unwrap();
    assert_eq!((tls.cert, tls.key), (folder("good").join("./cert.pem"), "/etc/relay/key.pem".into()));
    assert_eq!(config.limits.per_token.map(std::num::NonZeroU32::get), Some(60));
    assert_eq!(config.limits.per_address, None);
    assert!(config.insecure_targets && config.remote_metrics);
    assert_eq!(config.retention, Some(Duration::from_secs(7 * 86_400)));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn an_empty_file_is_all_defaults() {
    let config = RelayConfig::load(&folder("good/empty.yaml")).unwrap();
    assert_eq!(config.listen, "127.0.0.1:19122".parse().unwrap());
    assert_eq!(config.data_dir, folder("good").join("data"));
    assert!(config.trusted_proxies.is_empty());
    assert_eq!(config.limits.per_token.map(std::num::NonZeroU32::get), Some(6_000));
    assert_eq!(config.retention, Some(Duration::from_secs(30 * 86_400)));
    assert!(config.tls.is_none() && !config.insecure_targets && !config.remote_metrics);
}

#[test]
fn listening_beyond_this_machine_without_tls_is_warned_of() {
    let file = Path::new("/etc/relay/relay.yaml");
    let tls = "tls: {cert: c.pem, key: k.pem}\n";
    for (listen, tls, warned) in [
        ("0.0.0.0:8443", "", true),
        ("192.0.2.7:80", "", true),
        ("'[::]:8443'", "", true),
        ("0.0.0.0:8443", tls, false),
        ("127.0.0.1:19122", "", false),
        ("'[::1]:19122'", "", false),
    ] {
        let config = RelayConfig::parse(&format!("dataDir: x\nlisten: {listen}\n{tls}"), file).unwrap();
        let told = config
            .warnings
            .iter()
            .any(|text| text.contains("relay.yaml:2: relay.listen listens beyond this machine without TLS"));
        assert_eq!((told, config.warnings.len()), (warned, usize::from(warned)), "{:?}", config.warnings);
    }
}

#[test]
fn each_bad_file_is_refused_in_its_own_words() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder("bad")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# error: ").unwrap();
        let error = RelayConfig::load(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{}: {error}", path.display());
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        seen += 1;
    }
    assert_eq!(seen, 19);
    assert!(RelayConfig::load(&folder("none.yaml")).is_err());
}

#[test]
fn an_error_names_the_file_the_line_and_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.yaml");
    for (text, line, problem) in [
        (
            "listen: 127.0.0.1:1\nplans:\n  free:\n    agents: 1\n  pro:\n    agents: many\n",
            6,
            "relay.plans.pro.agents must be a whole number or unlimited",
        ),
        (
            "listen: 127.0.0.1:1\nlimits: {callsPerMinuteAndToken: 0}\n",
            2,
            "relay.limits.callsPerMinuteAndToken must be at least 1, or unlimited",
        ),
        (
            "dataDir: x\n\n# a comment\ndatadir: x\n",
            4,
            "relay.datadir is not a known key; did you mean `dataDir`?",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let told = RelayConfig::load(&file).unwrap_err().to_string();
        assert_eq!(told, format!("{}:{line}: {problem}", file.display()));
    }
    std::fs::write(&file, "listen: 127.0.0.1:1\nplans: {\n").unwrap();
    assert!(RelayConfig::load(&file).unwrap_err().line.is_some());
}
