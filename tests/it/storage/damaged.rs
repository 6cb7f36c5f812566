//! A database that is damaged under a running broker, by a disk or by somebody: clients are told to come back, the log
//! says why, and the next start refuses in a sentence instead of serving half of the mail.

#![cfg(unix)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use redsyn_bridge::dsh_client::DshError;
use serde_json::{Value, json};

use crate::support::local::LocalBroker;
use crate::support::process::run;

/// Everything but the first page, which says what kind of file it is.
pub fn damage(file: &Path) {
    let length = usize::try_from(std::fs::metadata(file).unwrap().len()).unwrap();
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&vec![0x5a; length - 4096], 4096).unwrap();
    file.sync_all().unwrap();
}

fn is_busy(answer: Result<Value, DshError>) {
    match answer {
        Err(DshError::Refused { status, body }) => {
            assert_eq!((status, body["error"]["code"].as_str()), (503, Some("busy")), "{body}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_database_that_is_damaged_under_the_broker_is_named_in_the_log_and_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    let ids: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
    for id in &ids {
        broker.send(id, &"x".repeat(20_000)).await.unwrap();
    }
    assert_eq!(broker.terminate(), Some(0));
    let file = broker.data().join("broker.db");
    let whole = std::fs::read(&file).unwrap();

    broker.start();
    // Its first sweep comes before its first answer.
    broker.register(&["beta"]).await;
    damage(&file);
    let beta = broker.agent("beta");
    for _ in 0..3 {
        is_busy(beta.post("/v1/pull", &json!({"limit": 50})).await);
        is_busy(beta.post("/v1/recent", &json!({})).await);
        is_busy(broker.send("another", "x").await);
    }
    let log = broker.process().wait_for_log("is damaged");
    assert!(log.last().unwrap().contains("ERROR"), "{log:#?}");
    // What needs no database still answers.
    let about = beta.get("/").await.unwrap();
    assert_eq!(about["storage"], "sqlite");
    broker.terminate();

    let refused = run(&broker.folder, &["serve", "--config", "config.yaml"]);
    let sentence = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(sentence.contains("the database is damaged") && sentence.contains("move it away"), "{sentence}");

    // What the damaged one had not yet moved into its file belongs to it alone.
    for companion in ["broker.db-wal", "broker.db-shm"] {
        let _ = std::fs::remove_file(broker.data().join(companion));
    }
    std::fs::write(&file, whole).unwrap();
    broker.start();
    assert!(broker.statuses(&ids).await.iter().all(|status| status == "queued"));
}
