//! Valid and invalid files; the recorded cases boot more of them.

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/relay/config.yaml")).map_err(|error| error.to_string())
}

fn problem(text: &str) -> String {
    parse(text).unwrap_err()
}

fn secret(text: &str) -> String {
    match parse(text).unwrap().broker.secret {
        BrokerSecret::Value(secret) => secret.expose().to_owned(),
        BrokerSecret::File(file) => panic!("a file: {file:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_reference() {
    let config = parse("broker:\n  secret: s\n").unwrap();
    let broker = config.broker;
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", 19_121));
    assert_eq!(broker.data_dir, Path::new("/etc/relay/data"));
    assert_eq!(broker.storage, Storage::Sqlite);
    assert_eq!(broker.message_ttl.as_secs(), 7 * 86_400);
    assert_eq!((broker.lease_seconds, broker.max_attempts), (600, 3));
    assert_eq!((broker.rate.loopback.get(), broker.rate.remote.get()), (600, 120));
    assert!(broker.notify_failed_to_sender && broker.is_loopback());
    assert_eq!((config.security.lock_after_failures, config.security.lock_for.as_secs()), (5, 300));
    assert!(config.agents.0.is_empty() && config.redsyn.is_none() && config.warnings.is_empty());
}

#[test]
fn a_secret_is_the_text_that_is_written() {
    for (written, read) in [
        ("abc#def", "abc#def"),
        ("\"ab#c\"", "ab#c"),
        ("'it''s'", "it's"),
        ("true", "true"),
        ("0012345", "0012345"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1.10", "1.10"),
        ("0x1F", "0x1F"),
        ("1e5", "1e5"),
        ("two words", "two words"),
    ] {
        assert_eq!(secret(&format!("broker:\n  secret: {written}\n")), read);
    }
    assert_eq!(secret("broker:\n  secret: |\n    block\n"), "block");
    assert_eq!(
        secret("\u{feff}broker:\t# tabs, line ends and a mark of Windows\r\n  secret:\ttabs\t# more\r\n"),
        "tabs"
    );
}

#[test]
fn a_blank_or_missing_secret_is_refused() {
    for blank in ["", "\"\"", "'  '", "~", "null"] {
        let text = format!("broker:\n  secret: {blank}\n");
        assert_eq!(
            problem(&text),
            "/etc/relay/config.yaml:2: broker.secret must not be blank: leave the key out or give a secret"
        );
        let text = format!("broker:\n  secret: s\nagents:\n  a:\n    secret: {blank}\n");
        assert!(problem(&text).starts_with("/etc/relay/config.yaml:5: agents.a.secret must not be blank"));
    }
    for missing in ["", "broker:\n", "broker:\n  port: 1\n"] {
        assert!(problem(missing).contains("broker.secret is missing"), "{missing}");
    }
    assert!(problem("broker:\n  secret: s\n  secretFile: f\n").contains("not both"));
    let file = parse("broker:\n  secretFile: ./data/broker.secret\n").unwrap().broker.secret;
    assert!(matches!(file, BrokerSecret::File(file) if file == Path::new("/etc/relay/data/broker.secret")));
    assert!(problem("broker:\n  secret: CHANGE_ME_RUN_SETUP_INIT\n").contains("placeholder"));
}

#[test]
fn an_error_names_line_key_and_range() {
    for (line, told) in [
        ("port: 0", "broker.port must be a whole number from 1 to 65535"),
        ("port: 80.5", "broker.port must be a whole number from 1 to 65535"),
        ("port: -1", "broker.port must be a whole number from 1 to 65535"),
        ("messageTtlDays: 1.5", "broker.messageTtlDays must be a whole number from 0 to 36500"),
        ("leaseSeconds: 86401", "broker.leaseSeconds must be a whole number from 1 to 86400"),
        ("maxAttempts: -1", "broker.maxAttempts must be a whole number of at least 0"),
        ("rateLimitRemote: 0", "broker.rateLimitRemote must be a whole number of at least 1"),
        ("persist: yes", "broker.persist must be true or false, without quotes"),
        ("persist: \"true\"", "broker.persist must be true or false, without quotes"),
        ("storage: memory", "broker.storage must be sqlite or jsonl"),
        ("tls: false", "broker.tls is not supported: put a reverse proxy in front of the broker"),
        ("host: [a]", "broker.host must be a text"),
    ] {
        assert_eq!(
            problem(&format!("broker:\n  secret: s\n  {line}\n")),
            format!("/etc/relay/config.yaml:3: {told}")
        );
    }
    assert!(
        problem("broker: 5\n").ends_with("config.yaml:1: broker must be a section of `key: value` lines")
    );
    assert!(
        problem("broker:\n  secret: s\n secret: t\n").starts_with("/etc/relay/config.yaml:3: is not YAML")
    );
    assert!(problem("broker:\n  port: 1\n  port: 2\n").contains("there twice"));
}

#[test]
fn the_agents_of_the_file() {
    let config = parse(
        "broker:\n  secret: s\nagents:\n  007:\n    secret: 0012\n    allowed_targets: [beta, 1.10]\n  gamma:\n    keys:\n      k-1:\n        secret: 1.10\n        not_after: 4102444800\n",
    )
    .unwrap();
    let agent =
        |name: &str| config.agents.0.get(&crate::proto::dsh::names::AgentName::parse(name).unwrap()).unwrap();
    assert_eq!(agent("007").secret.as_ref().unwrap().expose(), "0012");
    assert_eq!(agent("007").allowed_targets.as_ref().unwrap(), &["beta", "1.10"]);
    let key = agent("gamma").keys.get("k-1").unwrap();
    assert_eq!((key.secret.expose(), key.not_after), ("1.10", Some(4_102_444_800.0)));
    assert!(config.agents.are_isolated());
    assert!(
        !parse("broker:\n  secret: s\nagents:\n  a:\n  b:\n    allowed_targets: []\n")
            .unwrap()
            .agents
            .are_isolated()
    );
}

#[test]
fn what_is_wrong_with_an_agent_is_told() {
    for (entry, told) in [
        ("a b: {}", "is no agent name"),
        ("a: {allowed_targets: beta}", "agents.a.allowed_targets must be a list"),
        ("a: {allowed_write_targets: 5}", "agents.a.allowed_write_targets must be a list"),
        ("a: {keys: x}", "agents.a.keys must be a section"),
        ("a: {keys: {-k: {secret: s}}}", "is no key id"),
        ("a: {keys: {k: {secret: ''}}}", "agents.a.keys.k.secret must not be blank"),
        ("a: {keys: {k: }}", "agents.a.keys.k needs a secret"),
        ("a: {keys: {k: {secret: s, not_after: soon}}}", "agents.a.keys.k.not_after must be a time"),
        ("a: {keys: {k: {secret: s, not_after: 0}}}", "agents.a.keys.k.not_after must be a time"),
        ("a: {secret: s}\n  b: {allowed_targets: [a]}", "agents.b needs a secret or keys"),
    ] {
        let problem = problem(&format!("broker:\n  secret: s\nagents:\n  {entry}\n"));
        assert!(problem.contains(told), "{entry}: {problem}");
    }
}

#[test]
fn unknown_keys_are_warned_of_with_the_nearest_known_one() {
    let config = parse(
        "broker:\n  secret: s\n  leaseSecond: 5\n  zzz: 1\nsecurity:\n  lockMinute: 2\nagent:\n  a:\nagents:\n  a:\n    allowed_target: [b]\n",
    )
    .unwrap();
    assert_eq!(
        config.warnings,
        [
            "/etc/relay/config.yaml:3: broker.leaseSecond is unknown and ignored; did you mean leaseSeconds?",
            "/etc/relay/config.yaml:4: broker.zzz is unknown and ignored",
            "/etc/relay/config.yaml:6: security.lockMinute is unknown and ignored; did you mean lockMinutes?",
            "/etc/relay/config.yaml:7: agent is unknown and ignored; did you mean agents?",
            "/etc/relay/config.yaml:11: agents.a.allowed_target is unknown and ignored; did you mean allowed_targets?",
        ]
    );
}

/// The line and what follows it of a refusal.
fn refused(text: &str) -> String {
    problem(text).trim_start_matches("/etc/relay/config.yaml:").to_owned()
}

#[test]
fn a_refusal_names_the_line_of_the_key_itself_not_of_one_that_is_called_the_same() {
    for (text, told) in [
        // Another section's key of the same name, before and behind.
        ("agents:\n  alpha:\n    secret: s\nbroker:\n  port: 1\n", "4: broker.secret is missing"),
        ("broker:\n  port: 1\nagents:\n  alpha:\n    secret: s\n", "1: broker.secret is missing"),
        (
            "broker:\n  secret: s\nredsyn:\n  relay: off\n  scope: a/b/c\n  agents:\n    beta:\n      description: secret\nagents:\n  beta:\n    secret: \"\"\n",
            "11: agents.beta.secret must not be blank",
        ),
        (
            "broker:\n  secret: s\nagents:\n  a:\n    keys:\n      a:\n        secret: t\n      secret:\n        not_after: 1\n",
            "8: agents.a.keys.secret needs a secret",
        ),
        // Comments, quotes and blocks that look like the key.
        (
            "broker:\n  # port: 1\n  secret: |\n    port: 2\n  dataDir: 'x\n\n    port: 3'\n  \"port\" : 0\n",
            "8: broker.port must be a whole number",
        ),
        // Braces, on one line and on several.
        ("broker: { secret: s,\n  port: 1, leaseSeconds:\n    0 }\n", "2: broker.leaseSeconds must be"),
        (
            "{broker: {secret: s},\nagents: {a: {keys: {k: {\nsecret: ''}}}}}\n",
            "3: agents.a.keys.k.secret must",
        ),
        // Names with dots in them.
        (
            "broker:\n  secret: s\nagents:\n  a.b:\n    allowed_targets: []\n  a:\n    b:\n      c\n    allowed_targets: x\n",
            "9: agents.a.allowed_targets must be a list",
        ),
        // The item of a list, not its key.
        (
            "broker:\n  secret: s\nredsyn:\n  relay: off\n  scope: a/b/c\n  agents:\n    x:\n      allow:\n        - org\n        - the boss\n",
            "10: redsyn.agents.x.allow",
        ),
        // Said twice, of two documents, or nothing of the kind.
        ("broker:\n  secret: s\nagents:\n  a:\nbroker:\n  port: 1\n", "5: broker is there twice"),
        ("broker:\n  secret: s\n---\nbroker:\n  port: 1\n", "3: begins a second document"),
        ("broker:\n  secret: s\n  ? [a]\n  : b\n", "3: broker has a key that is no text"),
        ("broker:\n  secret: !hunter2 s\n", "2: broker.secret begins with !, which is a tag in YAML"),
        ("broker:\n  port: 1\n  secret: @hunter2\n", "3: broker.secret is not YAML: unexpected character"),
        ("- broker\n", "1: must be a section"),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(told), "{text}: {refused}");
    }
}

#[test]
fn a_key_without_a_blank_behind_its_colon_shows_no_secret() {
    let refused = refused("broker:\n  secret:hunter2\n  port: 1\n");
    assert!(refused.starts_with("3: ") && refused.contains("behind a key a blank"), "{refused}");
    assert!(!refused.contains("hunter"), "{refused}");
    let warnings = parse("broker: {secret: s, secret:hunter2}\n").unwrap().warnings.concat();
    assert!(warnings.contains("broker.secret:… is unknown") && !warnings.contains("hunter"), "{warnings}");
}

#[test]
fn an_alias_is_what_it_stands_for() {
    let config =
        parse("broker: {secret: s}\nagents:\n  a: &limits {allowed_targets: [b]}\n  b: *limits\n").unwrap();
    assert!(
        config.agents.0.values().all(|agent| agent.allowed_targets.as_deref() == Some(&["b".to_owned()][..]))
    );
    let bomb: String =
        (1..30).map(|level| format!("k{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)).collect();
    assert!(problem(&format!("k0: &a0 [x]\n{bomb}")).contains("more than 100000 values"));
    assert!(problem("a: &a [*a]\n").contains("inside what it stands for"));
}

#[test]
fn lists_with_empty_items_are_read_as_the_reference_reads_them() {
    let config = parse(
        "broker:\n  secret: s\nagents:\n  alpha:\n    allowed_targets: ['beta',  \"gamma\" , , delta ]\n  beta:\n    allowed_targets: [,]\n",
    )
    .unwrap();
    let targets: Vec<_> =
        config.agents.0.values().map(|agent| agent.allowed_targets.clone().unwrap()).collect();
    assert_eq!(targets, [vec!["beta", "gamma", "delta"], vec![]]);
    assert_eq!(
        config.warnings,
        [
            "/etc/relay/config.yaml:5: agents.alpha.allowed_targets has an empty item, which YAML does not allow",
            "/etc/relay/config.yaml:7: agents.beta.allowed_targets has an empty item, which YAML does not allow",
        ]
    );
}

#[test]
fn an_empty_item_costs_no_other_text_a_letter() {
    let with = |line: &str| {
        let text = format!("{line}\nsecurity:\n  admin_agents: [ops, , \"a,,b\", 'c, ,d']   # [x,,y]\n");
        let config = parse(&text).unwrap();
        assert_eq!(config.security.admin_agents, ["ops", "a,,b", "c, ,d"]);
        let BrokerSecret::Value(secret) = config.broker.secret else { panic!("a file") };
        secret.expose().to_owned()
    };
    for (written, read) in [
        ("\"k[1,,2]z\"", "k[1,,2]z"),
        ("'k[1, ,2]z'", "k[1, ,2]z"),
        ("k[1,,2]z", "k[1,,2]z"),
        ("|\n    k[1,,2]z", "k[1,,2]z"),
        ("k # [1,,2]", "k"),
    ] {
        assert_eq!(with(&format!("broker:\n  secret: {written}")), read, "{written}");
    }
    // Between braces and in front of a list's lines nothing is empty that could be passed over.
    for text in ["broker: {secret: s, , port: 1}\n", "agents:\n  a:\n    allowed_targets:\n    - ,b\n"] {
        assert!(problem(text).contains("not YAML"), "{text}");
    }
}

#[test]
fn a_backslash_in_double_quotes_is_told_what_to_do() {
    let quotes = r"use single quotes: 'C:\relay\data'";
    for (line, key) in [
        (r#"dataDir: "C:\relay\data""#, "3: broker.dataDir"),
        (r#"dataDir: "C:\users""#, "3: broker.dataDir"),
        // An escape that there is: the folder would have a line break in its name.
        (r#"dataDir: "C:\new""#, "3: broker.dataDir"),
    ] {
        let refused = refused(&format!("broker:\n  secret: s\n  {line}\n"));
        assert!(refused.starts_with(key) && refused.ends_with(quotes), "{line}: {refused}");
    }
    for text in [
        "broker:\n  secretFile: \"data\\broker\"\n",
        "broker:\n  secret: s\nredsyn:\n  relay: off\n  tokenFile: \"\\token\"\n",
    ] {
        assert!(refused(text).ends_with(quotes), "{text}");
    }
    let config = parse("broker:\n  secret: s\n  dataDir: 'C:\\relay\\new'\n").unwrap();
    assert!(config.broker.data_dir.ends_with("C:\\relay\\new") && config.warnings.is_empty());
}

#[test]
fn the_home_folder_has_no_sign_here() {
    for line in ["dataDir: ~/data\n  secret: s", "dataDir: ~ana/data\n  secret: s", "secretFile: ~/secret"] {
        let refused = refused(&format!("broker:\n  {line}\n"));
        assert!(refused.starts_with("2: broker.") && refused.contains("begins with ~"), "{line}: {refused}");
    }
    let config = parse("broker:\n  secret: s\n  dataDir: ./~data\n").unwrap();
    assert_eq!(config.broker.data_dir, Path::new("/etc/relay/./~data"));
}

#[test]
fn a_host_is_an_address_or_a_name() {
    for host in ["127.0.0.1", "'::1'", "0.0.0.0", "localhost", "relay-1.lan", "my_machine"] {
        assert!(parse(&format!("broker:\n  secret: s\n  host: {host}\n")).is_ok(), "{host}");
    }
    for host in
        ["not a host", "'[::1]'", "127.0.0.1:19121", "127.0.0", "http://localhost", "a..b", "''", "256.1.1.1"]
    {
        let refused = refused(&format!("broker:\n  secret: s\n  host: {host}\n"));
        assert!(refused.starts_with("3: broker.host "), "{host}: {refused}");
    }
}

#[test]
fn broker_and_embedded_relay_do_not_share_a_port() {
    let with = |host: &str, listen: &str| {
        parse(&format!(
            "broker:\n  host: '{host}'\n  port: 4000\n  secret: s\nredsyn:\n  scope: a/b/c\n  listen: '{listen}'\n"
        ))
    };
    for (host, listen) in [
        ("127.0.0.1", "127.0.0.1:4000"),
        ("localhost", "127.0.0.1:4000"),
        ("127.0.0.1", "0.0.0.0:4000"),
        ("::", "127.0.0.1:4000"),
        ("::1", "[::1]:4000"),
        ("relay.lan", "Relay.lan:4000"),
    ] {
        let refused = with(host, listen).unwrap_err();
        assert!(
            refused.contains("config.yaml:7: redsyn.listen is") && refused.contains("broker.port"),
            "{refused}"
        );
    }
    for (host, listen) in
        [("127.0.0.1", "127.0.0.1:4001"), ("127.0.0.1", "[::1]:4000"), ("10.0.0.1", "10.0.0.2:4000")]
    {
        assert!(with(host, listen).is_ok(), "{host} {listen}");
    }
    // Where it listens without being told.
    let refused = refused("broker:\n  port: 19122\n  secret: s\nredsyn:\n  scope: a/b/c\n");
    assert!(refused.starts_with("4: redsyn.listen is 127.0.0.1:19122"), "{refused}");
}

#[test]
fn an_embedded_relay_beyond_the_machine_is_warned_of() {
    for (listen, warned) in [
        ("0.0.0.0:4000", true),
        ("'[::]:4000'", true),
        ("relay.lan:4000", true),
        ("'[::1]:4000'", false),
        ("localhost:4000", false),
    ] {
        let config =
            parse(&format!("broker:\n  secret: s\nredsyn:\n  scope: a/b/c\n  listen: {listen}\n")).unwrap();
        let told =
            config.warnings.iter().any(|text| text.contains("config.yaml:5: redsyn.listen listens beyond"));
        assert_eq!((told, config.warnings.len()), (warned, usize::from(warned)), "{:?}", config.warnings);
    }
}

#[test]
fn whoever_allows_everyone_is_told_that_this_is_a_handle() {
    let config = parse("broker:\n  secret: s\nredsyn:\n  relay: off\n  scope: a/b/c\n  agents:\n    x:\n      allow:\n      - org\n      - everyone\n").unwrap();
    let [warning] = config.warnings.as_slice() else { panic!("{:?}", config.warnings) };
    for part in [
        "config.yaml:10: redsyn.agents.x.allow",
        "\"everyone\"",
        "handle",
        "team:<team>",
        "org:<organization>",
    ] {
        assert!(warning.contains(part), "{warning}");
    }
}

#[test]
fn listening_beyond_the_machine_is_warned_of() {
    let config = parse("broker:\n  secret: s\n  host: 0.0.0.0\n").unwrap();
    assert!(
        config.warnings.iter().any(|warning| warning.contains("config.yaml:3: broker.host listens beyond"))
    );
}

#[test]
fn errors_of_the_bridges_section_name_line_and_key() {
    let error =
        parse("broker:\n  secret: s\nredsyn:\n  scope: acme/finance/ana\n  encrypts: never\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "/etc/relay/config.yaml:5: redsyn.encrypts is not a known key; did you mean `encrypt`?"
    );
}

#[test]
fn who_may_read_the_numbers_is_this_machine_or_everybody() {
    let with = |line: &str| parse(&format!("broker:\n  secret: s\n{line}\n"));
    for (line, remote) in
        [("", false), ("metrics:", false), ("metrics: {}", false), ("metrics: { allow_remote: true }", true)]
    {
        let config = with(line).unwrap();
        assert_eq!((config.remote_metrics, config.warnings.is_empty()), (remote, true), "{line}");
    }
    let refused = |line: &str| with(line).unwrap_err();
    assert_eq!(
        refused("metrics:\n  allow_remote: maybe"),
        "/etc/relay/config.yaml:4: metrics.allow_remote must be true or false, without quotes"
    );
    assert_eq!(
        refused("metrics:\n  allowRemote: true"),
        "/etc/relay/config.yaml:4: metrics.allowRemote is not a known key; did you mean `allow_remote`?"
    );
    assert_eq!(
        refused("metrics: yes please"),
        "/etc/relay/config.yaml:3: metrics must be a section of `key: value` lines"
    );
}

#[test]
fn a_token_of_digits_is_the_digits_that_are_written() {
    let config =
        parse("broker:\n  secret: s\nredsyn:\n  relay: https://relay.example/redsyn/v1\n  token: 0012\n")
            .unwrap();
    let super::redsyn::TokenSource::Value(token) = config.redsyn.unwrap().token else { panic!("no value") };
    assert_eq!(token.expose(), "0012");
}

#[test]
fn the_reference_configuration_is_right_and_needs_no_warning() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.yaml");
    let config = Config::load(&file).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert!(config.redsyn.is_some());
}

#[test]
fn secrets_are_not_shown() {
    let config = parse("broker:\n  secret: hunter2\nagents:\n  a:\n    secret: hunter3\n").unwrap();
    assert!(!format!("{config:?}").contains("hunter"));
}
