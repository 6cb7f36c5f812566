//! A crash at any moment of writing: afterwards a batch is there whole or not at all, and the store goes on.

use super::*;

/// The files and the database after a batch.
struct Moment {
    mail: Vec<u8>,
    rows: Vec<u8>,
    dump: BTreeMap<String, Vec<Cells>>,
}

impl Moment {
    async fn of(store: &LocalStore, folder: &Path) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        Self { mail: read(MAIL), rows: read(ROWS), dump: dump(store).await }
    }
}

/// A batch each, and the files after each.
async fn story(folder: &Path) -> Vec<Moment> {
    let (store, _) = open(folder);
    let mut moments = vec![Moment::of(&store, folder).await];
    macro_rules! after {
        ($change:expr) => {
            $change;
            moments.push(Moment::of(&store, folder).await);
        };
    }
    after!(store.register(agent("beta"), NOW).await.unwrap());
    after!(send(&store, "one").await);
    after!(send(&store, "two").await);
    after!(execute(&store, MIXED).await.unwrap());
    let mut leased = Vec::new();
    after!(leased.extend(pull(&store, 2).await));
    after!(ack(&store, &leased[0], Outcome::Completed).await);
    after!(
        execute(&store, "DELETE FROM held; UPDATE messages SET status = 'leased' WHERE id = 'away'")
            .await
            .unwrap()
    );
    after!(
        execute(&store, "DELETE FROM messages WHERE id = 'one'; DELETE FROM pins WHERE key = 'k1'")
            .await
            .unwrap()
    );
    after!(execute(&store, "DELETE FROM messages").await.unwrap());
    store.close().await.unwrap();
    moments
}

/// Opens what a crash has left, checks it, goes on, and opens it once more.
async fn check(mail: &[u8], rows: &[u8], expected: &Moment, place: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(MAIL), mail).unwrap();
    std::fs::write(folder.path().join(ROWS), rows).unwrap();
    let (store, loaded) = open(folder.path());
    assert_eq!(loaded.broken, [], "{place}");
    assert_eq!(dump(&store).await, expected.dump, "{place}");
    execute(&store, "INSERT INTO agents VALUES ('later', 1)").await.unwrap();
    send_unregistered(&store).await;
    let after = dump(&store).await;
    let store = reopened(store, folder.path()).await;
    assert_eq!(dump(&store).await, after, "{place}, gone on");
    store.close().await.unwrap();
}

async fn send_unregistered(store: &LocalStore) {
    store.receipt(message("later"), agent("later"), |_| ()).await.unwrap();
}

#[tokio::test]
async fn a_crash_at_any_moment_leaves_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let story = story(folder.path()).await;
    let mut mixed = 0;
    for (step, two) in story.windows(2).enumerate() {
        let [before, after] = two else { unreachable!() };
        let has_rows = after.rows.len() > before.rows.len();
        mixed += usize::from(has_rows && after.mail.len() > before.mail.len());
        for cut in cuts(&before.mail, &after.mail) {
            check(&after.mail[..cut], &before.rows, before, &format!("step {step}, mail cut at {cut}")).await;
        }
        let without_rows = if has_rows { before } else { after };
        check(&after.mail, &before.rows, without_rows, &format!("step {step}, mail whole")).await;
        for cut in cuts(&before.rows, &after.rows) {
            check(&after.mail, &after.rows[..cut], before, &format!("step {step}, rows cut at {cut}")).await;
        }
        check(&after.mail, &after.rows, after, &format!("step {step}, all whole")).await;
    }
    assert!(mixed >= 3, "the story has batches in both files");
}

/// Where the stretch that `new` has beyond `old` is cut: around each end of a line, and here and there.
fn cuts(old: &[u8], new: &[u8]) -> Vec<usize> {
    let line_end = |at: &usize| new[*at] == b'\n' || new[at.saturating_sub(1)] == b'\n';
    (old.len()..new.len()).filter(|at| line_end(at) || (at - old.len()) % 101 == 7).collect()
}

#[tokio::test]
async fn blocks_that_never_reached_the_disk_are_an_unfinished_end() {
    let folder = tempfile::tempdir().unwrap();
    let story = story(folder.path()).await;
    let [before, after] = [&story[3], &story[4]];
    // The file has its new length, but zeros stand where the end of the batch should.
    let zeroed = |old: &[u8], new: &[u8]| {
        let half = usize::midpoint(old.len(), new.len());
        [&new[..half], &vec![0; new.len() - half]].concat()
    };
    check(&zeroed(&before.mail, &after.mail), &before.rows, before, "mail").await;
    check(&after.mail, &zeroed(&before.rows, &after.rows), before, "rows").await;
}

#[tokio::test]
async fn between_the_two_files_of_a_compaction_nothing_is_half() {
    let folder = tempfile::tempdir().unwrap();
    let story = story(folder.path()).await;
    for (at, moment) in story.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MAIL), &moment.mail).unwrap();
        std::fs::write(folder.path().join(ROWS), &moment.rows).unwrap();
        // Opening rewrites both.
        let (store, _) = open(folder.path());
        let compact = Moment::of(&store, folder.path()).await;
        store.close().await.unwrap();
        check(&moment.mail, &compact.rows, moment, &format!("moment {at}, rows only")).await;
        check(&compact.mail, &compact.rows, moment, &format!("moment {at}, both")).await;
    }
}

#[tokio::test]
async fn mail_whose_rows_were_never_written_stays_out_when_another_broker_writes_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let story = story(folder.path()).await;
    let [before, after] = [&story[3], &story[4]];
    let line = json!({"seq": 50, "message": {"id": "node", "from": "alpha", "to": "beta", "ts": "2024-04-05T19:34:38.000Z"}});
    let mail = [after.mail.as_slice(), format!("{line}\n").as_bytes()].concat();
    for rewritten in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MAIL), &mail).unwrap();
        std::fs::write(folder.path().join(ROWS), &before.rows).unwrap();
        let (store, _) = open(folder.path());
        assert_eq!(ids(&store).await, ["one", "two", "node"]);
        let rows = std::fs::read(folder.path().join(ROWS)).unwrap();
        store.close().await.unwrap();
        if rewritten {
            // A crash after the rows were rewritten, and before the mail was.
            check_ids(&mail, &rows, &["one", "two", "node"]).await;
        }
    }
}

async fn check_ids(mail: &[u8], rows: &[u8], expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(MAIL), mail).unwrap();
    std::fs::write(folder.path().join(ROWS), rows).unwrap();
    let (store, _) = open(folder.path());
    assert_eq!(ids(&store).await, expected);
    store.close().await.unwrap();
}
