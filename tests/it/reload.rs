//! A local broker reads its configuration again while it runs.

use redsyn_bridge::dsh_client::{DshClient, DshError};
use serde_json::{Value, json};

use crate::support::local::LocalBroker;
use crate::support::process::run;
use crate::support::v2::V2Agent;

const AGENTS: &str = "agents:
  alpha: { secret: a, allowed_targets: [beta], allowed_write_targets: [beta] }
  beta: { secret: b }
  gamma: { secret: c }
";

struct Scene {
    broker: LocalBroker,
    without_agents: String,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut broker = LocalBroker::new(folder.path(), "sqlite");
        let without_agents = std::fs::read_to_string(folder.path().join("config.yaml")).unwrap();
        broker.configure(AGENTS);
        broker.start();
        Self { broker, without_agents, _folder: folder }
    }

    /// Asks for a reload of another configuration: the exit code, and what it said.
    fn reload(&self, config: &str) -> (Option<i32>, String) {
        std::fs::write(self.broker.folder.join("config.yaml"), config).unwrap();
        let done = run(&self.broker.folder, &["reload"]);
        let said = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8(said).unwrap())
    }

    fn reload_agents(&self, agents: &str) {
        let (code, said) = self.reload(&(self.without_agents.clone() + agents));
        assert_eq!(code, Some(0), "{said}");
    }

    fn v1(&self, name: &str, secret: &str) -> DshClient {
        self.broker.agent_with(name, secret)
    }

    fn v2(&self, name: &str, secret: &str) -> V2Agent {
        V2Agent::new(&self.broker.base(), secret, name)
    }
}

async fn send(from: &DshClient, to: &str) -> Result<Value, DshError> {
    from.post("/messages", &json!({"to": to, "body": {"text": "hi"}})).await
}

fn status(refused: Result<Value, DshError>) -> u16 {
    match refused {
        Err(DshError::Refused { status, .. }) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_lists_and_administrators_count_from_the_reload_on() {
    let scene = Scene::new();
    let (alpha, beta) = (scene.v1("alpha", "a"), scene.v1("beta", "b"));
    for agent in [&alpha, &beta] {
        agent.post("/register", &json!({})).await.unwrap();
    }
    send(&alpha, "beta").await.unwrap();
    let ask =
        json!({"origin": "alpha", "target": "beta", "kind": "request", "body": "x", "idempotency_key": "k"});
    let (code, asked) = scene.v2("alpha", "a").post("/v1/messages", &ask).await.unwrap();
    assert_eq!(code, 200, "{asked}");
    let cancel = json!({"message_id": asked["message_id"]});
    assert_eq!(scene.v2("gamma", "c").post("/v1/admin/cancel", &cancel).await.unwrap().0, 403);

    scene.reload_agents(
        "security: { admin_agents: [gamma] }
agents:
  alpha: { secret: a, allowed_targets: [] }
  beta: { secret: new }
  gamma: { secret: c }
",
    );
    assert_eq!(status(send(&alpha, "beta").await), 403);
    assert_eq!(status(beta.post("/v1/pull", &json!({})).await), 401);
    assert_eq!(scene.v2("beta", "b").post("/v1/pull", &json!({})).await.unwrap().0, 401);
    let pulled = scene.v1("beta", "new").post("/v1/pull", &json!({})).await.unwrap();
    assert_eq!(pulled["messages"].as_array().unwrap().len(), 1);
    assert_eq!(scene.v2("gamma", "c").post("/v1/admin/cancel", &cancel).await.unwrap().0, 200);
    let again =
        json!({"origin": "alpha", "target": "beta", "kind": "request", "body": "x", "idempotency_key": "l"});
    assert_eq!(scene.v2("alpha", "a").post("/v1/messages", &again).await.unwrap().0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_calls_go_on_but_for_those_of_agents_whose_secret_has_gone() {
    let scene = Scene::new();
    for (agent, secret) in [("alpha", "a"), ("beta", "b"), ("gamma", "c")] {
        scene.v1(agent, secret).post("/register", &json!({})).await.unwrap();
    }
    let hold = |name: &str, secret: &str| {
        let (v1, v2) = (scene.v1(name, secret), scene.v2(name, secret));
        (
            tokio::spawn(async move { v1.post("/v1/pull", &json!({"waitSeconds": 25})).await.unwrap() }),
            tokio::spawn(async move { v2.post("/v1/pull", &json!({"wait_seconds": 25})).await.unwrap() }),
        )
    };
    let (beta, gamma) = (hold("beta", "b"), hold("gamma", "c"));
    scene.broker.until_pulling(&["v1", "v2"], 2).await;
    scene.reload_agents("agents:\n  alpha: { secret: a }\n  gamma: { secret: c }\n");
    let none = json!([]);
    assert_eq!((&beta.0.await.unwrap()["messages"], &beta.1.await.unwrap().1["messages"]), (&none, &none));
    assert!(!gamma.0.is_finished() && !gamma.1.is_finished());
    send(&scene.v1("alpha", "a"), "gamma").await.unwrap();
    assert_eq!(gamma.0.await.unwrap()["messages"].as_array().unwrap().len(), 1);
    let ask =
        json!({"origin": "alpha", "target": "gamma", "kind": "request", "body": "x", "idempotency_key": "k"});
    assert_eq!(scene.v2("alpha", "a").post("/v1/messages", &ask).await.unwrap().0, 200);
    assert_eq!(gamma.1.await.unwrap().1["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_is_named_and_then_nothing_changes() {
    let scene = Scene::new();
    let (alpha, beta) = (scene.v1("alpha", "a"), scene.v1("beta", "b"));
    beta.post("/register", &json!({})).await.unwrap();
    let other = "agents:\n  beta: { secret: b }\n";
    for (from, to, more, key) in [
        ("rateLimitLoopback: 1000000", "rateLimitLoopback: 2000", "", "broker.rateLimitLoopback"),
        ("secret: s", "secret: t", "", "broker.secret"),
        ("storage: sqlite", "storage: sqlite\n  leaseSeconds: 7", "", "broker.leaseSeconds"),
        ("", "", "security: { lockMinutes: 1 }\n", "security.lockMinutes"),
        ("", "", "metrics: { allow_remote: true }\n", "metrics.allow_remote"),
    ] {
        let changed = scene.without_agents.replacen(from, to, 1) + more;
        let (code, said) = scene.reload(&(changed + other));
        assert_eq!(code, Some(1), "{key}: {said}");
        assert!(
            said.contains(&format!("{key} changed, which needs a restart; nothing was changed")),
            "{said}"
        );
        send(&alpha, "beta").await.unwrap();
    }
    let (code, said) = scene.reload("broker: [");
    assert_eq!(code, Some(2), "{said}");
    send(&alpha, "beta").await.unwrap();
}
