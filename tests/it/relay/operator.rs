//! What whoever runs the relay does, and what survives a restart.

use std::sync::Arc;

use redsyn_bridge::config::redsyn::Scope;
use redsyn_bridge::domain::clock::{ManualClock, Timestamp};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::domain::relay::plan::Plans;
use redsyn_bridge::relay::{RelayError, Service, Settings};
use serde_json::json;

use super::target::{Bench, NOW, open_store, request, with};

async fn service(folder: &std::path::Path) -> Arc<Service> {
    let (plans, random) = (Arc::new(Plans::default()), SystemRandom::shared());
    let store = open_store(folder, Arc::clone(&plans)).await;
    let clock = ManualClock::at(Timestamp::from_secs(NOW));
    Service::new(store, Arc::new(clock), random, Settings { plans, ..Settings::default() })
}

fn scope(org: &str, team: &str, user: &str) -> Scope {
    Scope { org: org.parse().unwrap(), team: team.parse().unwrap(), user: user.parse().unwrap() }
}

#[tokio::test]
async fn people_and_nodes_have_their_names_to_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let relay = service(folder.path()).await;
    let ana = relay.create_person("ana@acme.example", "pro").await.unwrap();
    assert!(relay.create_person("ana@acme.example", "pro").await.is_err());
    assert!(relay.create_person("Ana@ACME.example", "pro").await.is_err());
    assert!(relay.create_person("beto@acme.example", "gold").await.is_err());
    assert!(relay.create_person("beto", "pro").await.is_err());
    let token = relay.create_node(ana, "laptop").await.unwrap();
    assert!(relay.create_node(ana, "laptop").await.is_err());
    assert!(relay.create_node(ana, " ").await.is_err());
    assert!(relay.create_node(ana, "two\nlines").await.is_err());
    assert!(relay.create_node("p99".parse().unwrap(), "laptop").await.is_err());
    assert_eq!(relay.authenticate(token.expose()).await.unwrap().person, ana);
    for typed in ["ana@acme.example", "Ana@Acme.Example"] {
        assert_eq!(relay.person_by_email(typed).await.unwrap().unwrap().id, ana);
    }
    assert!(relay.person_by_email("ana").await.unwrap().is_none());
    assert!(relay.person_by_email("beto@acme.example").await.unwrap().is_none());
    let people = relay.list().await.unwrap();
    assert_eq!((people.len(), people[0].nodes[0].name.as_str()), (1, "laptop"));
}

#[tokio::test]
async fn an_embedded_home_is_made_once_and_its_token_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let relay = service(folder.path()).await;
    let first = relay.ensure_embedded(&scope("local", "general", "me"), "bridge").await.unwrap();
    let caller = relay.authenticate(first.expose()).await.unwrap();
    let second = relay.ensure_embedded(&scope("local", "general", "me"), "bridge").await.unwrap();
    assert!(matches!(relay.authenticate(first.expose()).await, Err(RelayError::UnknownToken)));
    let again = relay.authenticate(second.expose()).await.unwrap();
    assert_eq!((again.person, again.node), (caller.person, caller.node));
    relay.ensure_embedded(&scope("local", "dev", "me"), "bridge").await.unwrap();
    let me = relay.me(&again).await.unwrap();
    assert_eq!(me["orgs"][0]["teams"], json!(["general", "dev"]));
    assert_eq!(relay.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_answered_survives_a_restart_and_no_token_is_on_disk() {
    let mut bench = Bench::start().await;
    let agent = "acme/general/ana/a";
    bench.ana.announce(agent, json!({})).await.is(201);
    bench.ana.send(&request("m1", agent, "a")).await.is(201);
    let token = bench.ana.token.clone();
    bench.stop();
    let Bench { folder, serving, service: first, .. } = bench;
    serving.await.unwrap().unwrap();
    first.close().await.unwrap();
    let relay = service(folder.path()).await;
    let caller = relay.authenticate(&token).await.unwrap();
    let items = std::sync::Arc::clone(&relay)
        .take(&caller, agent.parse().unwrap(), &Default::default())
        .await
        .unwrap();
    assert_eq!(serde_json::to_value(&items[0]).unwrap()["id"], "m1");
    relay.close().await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(token.len()).any(|window| window == token.as_bytes()), "{path:?}");
        }
    }
}

#[tokio::test]
async fn files_left_by_a_crash_are_removed_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("relay-files")).unwrap();
    std::fs::write(folder.path().join("relay-files/orphan"), b"PK").unwrap();
    let relay = service(folder.path()).await;
    assert_eq!(std::fs::read_dir(folder.path().join("relay-files")).unwrap().count(), 0);
    relay.close().await.unwrap();
}

#[tokio::test]
async fn a_removed_person_can_do_nothing_and_nobody_becomes_them() {
    let bench = Bench::start().await;
    let (agent, asker) = ("acme/finance/beto/cli", "acme/finance/ana/close");
    bench.ana.announce(asker, json!({})).await.is(201);
    bench.beto.announce(agent, json!({})).await.is(201);
    let topic = json!({"agent": agent, "topic": "topic:finance/x"});
    bench.beto.put("/subscriptions", topic).await.is(200);
    bench.ana.send(&with(request("m1", asker, agent), json!({"ttl": 60}))).await.is(201);
    let beto = bench.service.list().await.unwrap();
    let beto = beto.iter().find(|one| one.person.email.starts_with("beto")).unwrap().person.id;
    bench.service.remove_person(beto).await.unwrap();
    assert!(bench.service.remove_person(beto).await.is_err());
    assert!(bench.service.create_node(beto, "again").await.is_err());
    bench.beto.get("/me").await.refused(401);
    bench.ana.send(&request("m2", asker, agent)).await.refused(404);
    bench.ana.get(&format!("/agents/{agent}")).await.refused(404);
    let directory = bench.ana.get("/directory").await.is(200).to_string();
    assert!(!directory.contains(agent));
    assert_eq!(bench.ana.get("/topics").await.is(200)["topics"][0]["subscribers"], json!([]));
    assert_eq!(bench.ana.get("/orgs/acme/usage").await.is(200)["used"]["agents"], 1);
    bench.advance(60);
    let told = bench.ana.take_with(asker, "wait=25&reply_to=m1").await;
    assert_eq!(told[0]["error"], true, "what waited for them is told to its sender");
    // Their handle is still theirs; their e-mail address may come back as somebody new.
    let body = json!({"email": "beto@new.example", "team": "finance"});
    bench.ana.post("/orgs/acme/invites", body).await.is(201);
    let newcomer = bench.service.create_person("beto@new.example", "pro").await.unwrap();
    let token = bench.service.create_node(newcomer, "pc").await.unwrap();
    let newcomer = super::target::Node::new(&bench.ana.base_url, token.expose());
    newcomer.post("/orgs/acme/join", json!({"me": "beto"})).await.refused(409);
    newcomer.post("/orgs/acme/join", json!({"me": "beto2"})).await.is(200);
    let recorded = changes_of_operators(&bench);
    let [node, teams] = recorded.as_slice() else { panic!("{recorded:?}") };
    assert!(node.ends_with("was removed with its keys") && teams == "acme/beto was removed from all teams");
}

fn changes_of_operators(bench: &Bench) -> Vec<String> {
    let database = rusqlite::Connection::open(bench.folder.path().join("relay.db")).unwrap();
    let mut rows = database.prepare("SELECT what FROM audit WHERE by = 'operator' ORDER BY id").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_removed_node_is_refused_at_once_and_its_name_is_free() {
    let bench = Bench::start().await;
    let people = bench.service.list().await.unwrap();
    let ana = people.iter().find(|one| one.person.email == "ana@acme.example").unwrap();
    let server = ana.nodes.iter().find(|node| node.name == "server").unwrap().id;
    bench.ana_server.get("/me").await.is(200);
    bench.service.remove_node(server).await.unwrap();
    assert!(bench.service.remove_node(server).await.is_err());
    assert_eq!(changes_of_operators(&bench), [format!("node {server} was removed with its keys")]);
    bench.ana_server.get("/me").await.refused(401);
    bench.ana.get("/me").await.is(200);
    bench.service.create_node(ana.person.id, "server").await.unwrap();
    bench.ana_server.get("/me").await.refused(401);
}
