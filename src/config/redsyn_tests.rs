use super::*;

fn parse(yaml: &str) -> Result<RedsynConfig, KeyError> {
    RedsynConfig::parse(yaml, Path::new("/etc/node"))
}

/// Every key there is.
const FULL: &str = "
relay: https://relay.example/redsyn/v1/
tokenFile: ./data/redsyn.token
version: 2026-09-25
scope: acme/finance/ana
encrypt: require
receipts: progress
insecure: false
agents:
  close:
    description: closes the month
    allow: [org, team:ops, org:globex, beto]
    accept: encrypted
    trust: full
    topics: [finance/invoices, topic:globex/erp/prices]
    hold: true
    grant:
      continue: ['*/*/*/*']
      write: [globex/erp/bob/billing]
  Shout:
    address: acme/general/ana/shout
contacts:
  bob-billing: globex/erp/bob/billing
";

#[test]
fn every_key_is_read() {
    let config = parse(FULL).unwrap();
    assert_eq!(config.relay, RelayMode::Remote("https://relay.example/redsyn/v1".parse().unwrap()));
    assert!(
        matches!(&config.token, TokenSource::File(path) if path == Path::new("/etc/node/./data/redsyn.token"))
    );
    assert_eq!((config.encrypt, config.receipts), (Encrypt::Require, Receipts::Progress));
    assert_eq!(config.contacts["bob-billing"].to_string(), "globex/erp/bob/billing");
    let close = &config.agents[&AgentName::parse("close").unwrap()];
    assert_eq!(close.address.to_string(), "acme/finance/ana/close");
    assert_eq!(
        close.policy.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["org", "team:ops", "org:globex", "beto"]
    );
    assert!(close.policy.full_trust && close.policy.signed_only && close.policy.encrypted_only && close.hold);
    let topics: Vec<_> = close.topics.iter().map(ToString::to_string).collect();
    assert_eq!(topics, ["topic:acme/finance/invoices", "topic:globex/erp/prices"]);
    assert_eq!(close.grant.continues, ["*/*/*/*"]);
    assert_eq!(close.grant.write, ["globex/erp/bob/billing"]);
    let shout = &config.agents[&AgentName::parse("Shout").unwrap()];
    assert_eq!(shout.address.to_string(), "acme/general/ana/shout");
}

#[test]
fn what_is_left_out_is_safe() {
    let config = parse("scope: acme/finance/ana\nagents: {close: }").unwrap();
    assert_eq!(config.relay, RelayMode::Embedded { listen: "127.0.0.1:19122".into() });
    assert!(matches!(config.token, TokenSource::Default));
    assert_eq!(config.version, VERSION);
    assert_eq!((config.encrypt, config.receipts), (Encrypt::Prefer, Receipts::None));
    let close = &config.agents[&AgentName::parse("close").unwrap()];
    assert_eq!(close.policy, Policy::default());
    assert_eq!((close.accept, close.hold), (Accept::Any, false));
    assert_eq!(close.grant, Grant::default());
    assert!(close.topics.is_empty() && config.contacts.is_empty());
}

#[test]
fn other_good_configurations() {
    for yaml in [
        "relay: off",
        "relay: off\nscope: a/b/c\nagents: {x: {}}",
        "relay: embedded\nscope: a/b/c\nlisten: '[::1]:0'",
        "relay: http://127.0.0.1:8080/redsyn/v1",
        "relay: http://[::1]/redsyn/v1",
        "relay: http://localhost/redsyn/v1",
        "relay: http://relay.lan/redsyn/v1\ninsecure: true",
        "relay: off\nagents: {x: {address: a/b/c/d}}",
        "relay: off\nscope: a/b/c\nagents: {x: {allow: org}}",
        "relay: off\ntoken: 123",
    ] {
        assert!(parse(yaml).is_ok(), "{yaml}: {:?}", parse(yaml).unwrap_err());
    }
}

#[test]
fn full_trust_takes_signed_requests() {
    let agent = |more: &str| {
        let yaml = format!("relay: off\nscope: a/b/c\nagents: {{x: {{trust: full, allow: [org]{more}}}}}");
        parse(&yaml).map(|config| config.agents[&AgentName::parse("x").unwrap()].accept)
    };
    assert_eq!(agent(""), Ok(Accept::Signed));
    assert_eq!(agent(", accept: encrypted"), Ok(Accept::Encrypted));
    assert_eq!(agent(", accept: any").unwrap_err().key, "redsyn.agents.x.accept");
}

/// A bad section, the key that the refusal names, and what it says besides.
const BAD: &[(&str, &str, &[&str])] = &[
    ("[]", "redsyn", &["section"]),
    ("relay: Embedded", "redsyn.relay", &["\"Embedded\"", "embedded", "off", "https"]),
    ("relay: ftp://x/y", "redsyn.relay", &["ftp", "embedded", "off", "https"]),
    ("relay: 'https:'", "redsyn.relay", &["embedded", "off", "https"]),
    ("relay: http://relay.example", "redsyn.relay", &["insecure: true", "embedded", "off", "https"]),
    ("relay: http://127.0.0.2.example", "redsyn.relay", &["insecure: true"]),
    ("relay: https://relay.example/?x=1", "redsyn.relay", &["?", "https"]),
    ("relay: https://relay.example/#x", "redsyn.relay", &["#", "https"]),
    ("relay: https://ana:geheim@relay.example", "redsyn.relay", &["`token`"]),
    ("relay: [a]", "redsyn.relay", &["text"]),
    ("relay: https://relay.example\nlisten: 127.0.0.1:1", "redsyn.listen", &["relay: embedded"]),
    ("scope: a/b/c\nlisten: nowhere", "redsyn.listen", &["host:port", "127.0.0.1:19122"]),
    ("scope: a/b/c\nlisten: 127.0.0.1:70000", "redsyn.listen", &["host:port"]),
    ("relay: off\ninsecure: yes", "redsyn.insecure", &["true or false"]),
    ("scope: a/b/c\ntoken: geheim", "redsyn.token", &["embedded relay makes its own"]),
    ("relay: off\ntoken: geheim\ntokenFile: x", "redsyn.token", &["tokenFile", "not both"]),
    ("relay: off\ntoken: ' '", "redsyn.token", &["blank"]),
    ("relay: off\ntoken: \"geheim\\n\"", "redsyn.token", &["header"]),
    ("relay: off\ntoken: geheim-ñ", "redsyn.token", &["header"]),
    ("relay: off\ntokenFile: ''", "redsyn.tokenFile", &["blank"]),
    ("relay: off\nversion: latest", "redsyn.version", &["\"latest\"", "2026-09-25"]),
    ("relay: off\nversion: 2026-9-25", "redsyn.version", &["2026-09-25"]),
    ("relay: embedded", "redsyn.scope", &["org/team/user", "home/general/me"]),
    ("relay: off\nscope: acme/ana", "redsyn.scope", &["org/team/user", "lower case"]),
    ("relay: off\nscope: Acme/finance/ana", "redsyn.scope", &["org/team/user", "lower case"]),
    ("relay: off\nencrypt: maybe", "redsyn.encrypt", &["prefer", "require", "never"]),
    ("relay: off\nreceipts: all", "redsyn.receipts", &["none", "progress"]),
    ("relay: off\nagents: [close]", "redsyn.agents", &["section"]),
    ("relay: off\nagents: {close: {}}", "redsyn.agents.close", &["redsyn.scope", "address"]),
    ("relay: off\nagents: {'a b': {}}", "redsyn.agents.a b", &["1 to 64 letters"]),
    ("relay: off\nscope: a/b/c\nagents: {Close: {}}", "redsyn.agents.Close", &["lower case", "`address`"]),
    ("relay: off\nagents: {x: {address: ana/x}}", "redsyn.agents.x.address", &["org/team/user/agent"]),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {}, y: {address: a/b/c/x}}",
        "redsyn.agents.y",
        &["address of x", "a/b/c/x"],
    ),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {allow: ['the boss']}}",
        "redsyn.agents.x.allow",
        &["handle", "team:<team>", "org:<organization>"],
    ),
    ("relay: off\nscope: a/b/c\nagents: {x: {allow: {a: b}}}", "redsyn.agents.x.allow", &["list"]),
    ("relay: off\nscope: a/b/c\nagents: {x: {trust: some}}", "redsyn.agents.x.trust", &["none", "full"]),
    ("relay: off\nscope: a/b/c\nagents: {x: {trust: full}}", "redsyn.agents.x.trust", &["`allow`"]),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {trust: full, allow: [org], accept: any}}",
        "redsyn.agents.x.accept",
        &["signed", "encrypted"],
    ),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {accept: sealed}}",
        "redsyn.agents.x.accept",
        &["any", "signed", "encrypted"],
    ),
    ("relay: off\nscope: a/b/c\nagents: {x: {topics: [a/b/c/d]}}", "redsyn.agents.x.topics", &["topic"]),
    ("scope: a/b/c\nlisten: not a host:1", "redsyn.listen", &["host:port"]),
    ("relay: off\ncontacts: {bob: [a/b/c/d]}", "redsyn.contacts.bob", &["text"]),
    ("relay: off\nscope: a/b/c\nagents: {x: {hold: 1}}", "redsyn.agents.x.hold", &["true or false"]),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {grant: {write: [globex/*]}}}",
        "redsyn.agents.x.grant.write",
        &["org/team/user/agent", "`*` per level"],
    ),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {grant: {wirte: []}}}",
        "redsyn.agents.x.grant.wirte",
        &["did you mean `write`?"],
    ),
    ("relay: off\nscope: a/b/c\nagents: {x: {adress: a/b/c/d}}", "redsyn.agents.x.adress", &["`address`"]),
    ("relay: off\nscop: a/b/c\nagents: {x: {}}", "redsyn.scop", &["did you mean `scope`?"]),
    ("relay: off\ntokenfile: x", "redsyn.tokenfile", &["did you mean `tokenFile`?"]),
    ("relay: off\nqqqqqqqqqqqq: x", "redsyn.qqqqqqqqqqqq", &["is not a known key"]),
    ("relay: off\ncontacts: {bob: erp/bob/billing}", "redsyn.contacts.bob", &["org/team/user/agent"]),
    ("relay: off\ncontacts: {bob: a/b/c/d#s1}", "redsyn.contacts.bob", &["org/team/user/agent"]),
    ("relay: off\ncontacts: {bob/x: a/b/c/d}", "redsyn.contacts.bob/x", &["1 to 64 letters"]),
    (
        "relay: off\nscope: a/b/c\nagents: {x: {}}\ncontacts: {x: d/e/f/g}",
        "redsyn.contacts.x",
        &["local agent", "another alias"],
    ),
    // One name for the second generation of the local protocol, and so one inbox.
    (
        "relay: off\nscope: a/b/c\nagents: {Shout: {address: a/b/c/shout}}\ncontacts: {shouT: d/e/f/g}",
        "redsyn.contacts.shouT",
        &["local agent", "another alias"],
    ),
];

#[test]
fn each_refusal_names_the_key_and_what_is_allowed() {
    for (yaml, key, says) in BAD {
        let error = parse(yaml).map(drop).unwrap_err();
        assert_eq!(error.key, *key, "{yaml}: {error}");
        for text in *says {
            assert!(error.message.contains(text), "{yaml}: {error} does not say {text:?}");
        }
        assert!(!error.to_string().contains("geheim"), "{yaml}: {error}");
    }
}

#[test]
fn a_token_is_never_shown() {
    let config = parse("relay: off\ntoken: geheim").unwrap();
    assert!(!format!("{config:?}").contains("geheim"));
}
