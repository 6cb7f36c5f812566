//! «Versiones», and the form of every answer.

use reqwest::Method;
use serde_json::json;

use super::relay::{Relay, done, refused};
use crate::support::redsyn::{Node, with};

const DATE: &str = "2026-09-25";

#[tokio::test]
async fn any_other_v_is_refused_with_422() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    for v in [json!(2), json!("1"), json!(1.5)] {
        relay.beto.send(&with(relay.request("m1", &asker, &asked), json!({"v": v}))).await.refused(422);
    }
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
}

#[tokio::test]
async fn an_unknown_date_is_refused_with_400_and_the_list_of_the_known() {
    let relay = Relay::start().await;
    let dated = |date: &str| {
        let call = relay.ana.request(Method::GET, "/me").header("redsyn-version", date);
        relay.ana.send_request(call)
    };
    done(dated(DATE).await);
    for unknown in ["2020-01-01", "latest"] {
        assert!(dated(unknown).await.is(400).to_string().contains(DATE));
    }
}

#[tokio::test]
async fn every_answer_says_which_date_it_used() {
    // `is` and `refused` look at the header of each.
    let relay = Relay::start().await;
    done(relay.ana.get("/me").await);
    refused(relay.ana.get("/nothing").await, 404);
    refused(relay.ana.post("/me", json!({})).await, 405);
    let no_json = relay.ana.request(Method::POST, "/messages").body("{");
    refused(relay.ana.send_request(no_json).await, 400);
    refused(Node::new(&relay.ana.base_url, "nobody").get("/me").await, 401);
    let unknown = relay.ana.request(Method::GET, "/me").header("redsyn-version", "2020-01-01");
    relay.ana.send_request(unknown).await.is(400);
}

#[tokio::test]
async fn fields_that_are_not_known_are_ignored() {
    let relay = Relay::start().await;
    let asked = relay.listening(&relay.ana, "close", json!({"x_new": {"a": [1]}})).await;
    let asker = relay.listening(&relay.beto, "cli", json!({})).await;
    let envelope = with(relay.request("m1", &asker, &asked), json!({"x_new": 1}));
    relay.beto.send(&envelope).await.is(201);
    relay.ana.take(&asked).await;
    done(relay.ana.post(&format!("/inbox/{asked}/ack"), json!({"ids": [relay.name("m1")], "x": 1})).await);
}

#[tokio::test]
async fn errors_are_json_with_error_and_status() {
    // `refused` looks at both.
    let relay = Relay::start().await;
    let (asked, _) = relay.pair().await;
    for (method, path) in [
        (Method::PUT, format!("/agents/{asked}")),
        (Method::POST, "/messages".to_owned()),
        (Method::POST, format!("/inbox/{asked}/ack")),
        (Method::PUT, "/subscriptions".to_owned()),
        (Method::PUT, "/nodes/key".to_owned()),
        (Method::POST, "/orgs".to_owned()),
    ] {
        for body in ["{", "nul", "{\"a\":1}x"] {
            let call = relay.ana.request(method.clone(), &path).body(body);
            refused(relay.ana.send_request(call).await, 400);
        }
    }
}
