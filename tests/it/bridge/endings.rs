//! What becomes of a request that the other side's agent never finishes: its sender is told, through both bridges.

use serde_json::json;

use crate::support::bridge::BridgeProcess;
use crate::support::world::World;

#[tokio::test]
async fn a_request_that_is_given_back_too_often_comes_home_as_an_error() {
    let world = World::new().await;
    let start = |member, other| {
        BridgeProcess::start(
            &world.folder.path().join(other),
            member,
            if other == "a" { &world.bob } else { &world.ana },
            &world.url(),
        )
    };
    let (close, billing) = (start(&world.ana, "a"), start(&world.bob, "b"));
    close.register().await;
    billing.register().await;
    let id =
        close.send(&json!({"to": world.bob.address(), "kind": "request", "body": {"text": "again?"}})).await;
    loop {
        let request = billing.pull_one().await;
        assert_eq!(request["id"], json!(id));
        let retry = json!({"messageId": id, "leaseId": request["leaseId"], "outcome": "retry"});
        let acked = billing.client.post("/v1/ack", &retry).await.unwrap();
        if acked["status"] == json!("failed") {
            break;
        }
    }
    let notice = close.pull_one().await;
    assert_eq!((&notice["kind"], &notice["parentId"]), (&json!("reply"), &json!(id)));
    assert_eq!((&notice["redsyn"]["error"], &notice["redsyn"]["verified"]), (&json!(true), &json!(true)));
    let text = notice["body"]["text"].as_str().unwrap();
    assert!(text.starts_with("not delivered: globex/erp/bob/billing took it 4 times"), "{text}");
    assert_eq!(close.status(&id).await["status"], json!("failed"));
}
