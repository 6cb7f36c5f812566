//! Files through two real bridges, asked for over HTTP as a client would: names, limits, and who may look.

use redsyn_bridge::dsh_client::{DshClient, DshError};
use serde_json::{Value, json};

use crate::support::bridge::BridgeProcess;
use crate::support::world::World;
use crate::support::zips::zip_of;

fn refused<T>(answer: Result<T, DshError>) -> u16 {
    match answer {
        Err(DshError::Refused { status, .. }) => status,
        Err(DshError::NoAnswer(error)) => panic!("no answer: {error}"),
        Ok(_) => panic!("it was taken"),
    }
}

fn files_path(message: &Value) -> String {
    format!("/bridge/v1/messages/{}/files", message["id"].as_str().unwrap())
}

#[tokio::test]
async fn files_cross_two_bridges_and_only_their_parties_may_look() {
    let world = World::new().await;
    let start = |member, other| {
        let folder =
            world.folder.path().join(crate::support::world::Member::address(member).replace('/', "-"));
        BridgeProcess::start(&folder, member, other, &world.url())
    };
    let (close, billing) = (start(&world.ana, &world.bob), start(&world.bob, &world.ana));
    close.register().await;
    billing.register().await;

    // Nearly five megabytes: more than a message may have, and more than the relay's or the broker's usual limit.
    let noise: Vec<u8> = (0..4_900_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let zip = zip_of(&[("noise", &noise)]);
    let name = close.client.put_bytes("/bridge/v1/files", zip.clone()).await.unwrap()["file"].clone();
    let body = json!({"rows": vec!["a row of many"; 10_000]});
    let id = close
        .send(&json!({"to": world.bob.address(), "kind": "request", "body": body, "redsyn": {"files": name}}))
        .await;
    let request = billing.pull_one().await;
    assert_eq!(request["body"], body, "a long body is put back");
    assert_eq!(
        (&request["redsyn"]["encrypted"], &request["redsyn"]["verified"]),
        (&json!(true), &json!(true))
    );
    let fetched = billing.client.get_bytes(&files_path(&request)).await.unwrap();
    assert!(fetched == zip, "it comes out of the zip that the body travelled in as it was");
    assert_eq!(request["redsyn"]["files"], json!({"bytes": zip.len(), "sha256": name}));
    assert_eq!(close.client.get_bytes(&format!("/bridge/v1/messages/{id}/files")).await.unwrap(), zip);
    assert_eq!(refused(billing.other("eve").get_bytes(&files_path(&request)).await), 404);

    assert_eq!(refused(close.client.put_bytes("/bridge/v1/files", vec![0; 5 * 1024 * 1024 + 1]).await), 413);
    assert_eq!(refused(close.client.put_bytes("/bridge/v1/files", b"no zip".to_vec()).await), 400);
    assert_eq!(refused(close.client.put_bytes("/bridge/v1/other", vec![0; 2 * 1024 * 1024]).await), 400);
    let neighbour = close.other("eve");
    neighbour.post("/register", &json!({"agent": "eve"})).await.unwrap();
    let local = json!({"to": "close", "kind": "message", "body": {}, "redsyn": {"files": name}});
    assert_eq!(refused(neighbour.post("/messages", &local).await), 400);
    assert_eq!(refused(wrong_secret(&close).put_bytes("/bridge/v1/files", zip).await), 401);
    let cancel = json!({});
    let path = format!("/bridge/v1/messages/{id}/cancel");
    assert_eq!(refused(close.client.post(&path, &cancel).await), 409, "somebody has taken it");
}

fn wrong_secret(bridge: &BridgeProcess) -> DshClient {
    bridge.client_with("close", "another secret")
}
