use super::*;

const STEPS: Steps = &["CREATE TABLE t (x INTEGER PRIMARY KEY)"];

async fn insert(db: &Db, x: i64) -> Result<(), StoreError> {
    db.call("insert", move |conn| Ok(conn.execute("INSERT INTO t VALUES (?1)", [x]).map(|_| ())?)).await
}

async fn count(db: &Db) -> i64 {
    db.call("count", |conn| Ok(conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?))
        .await
        .unwrap()
}

#[tokio::test]
async fn what_was_answered_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = Db::open(&path, STEPS).unwrap();
    insert(&db, 1).await.unwrap();
    db.close().await.unwrap();
    let db = Db::open(&path, STEPS).unwrap();
    assert_eq!(count(&db).await, 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_whole_effect() {
    let db = Db::in_memory(STEPS).unwrap();
    tokio::select! {
        biased;
        _ = insert(&db, 1) => {}
        () = std::future::ready(()) => {}
    }
    assert_eq!(count(&db).await, 1);
}

#[tokio::test]
async fn what_follows_a_commit_follows_it_without_the_caller_and_not_after_a_failure() {
    let db = Db::in_memory(STEPS).unwrap();
    let (told, mut heard) = mpsc::unbounded_channel();
    for x in [1, 1, 2] {
        let told = told.clone();
        let work = move |conn: &Connection| Ok(conn.execute("INSERT INTO t VALUES (?1)", [x]).map(|_| x)?);
        let call = db.call_then("insert", work, move |x| told.send(*x).unwrap());
        // Polled once, so that the job is queued, then dropped.
        drop(futures_util::poll!(Box::pin(call)));
    }
    assert_eq!(count(&db).await, 2);
    drop(told);
    assert_eq!((heard.recv().await, heard.recv().await, heard.recv().await), (Some(1), Some(2), None));
}

#[tokio::test]
async fn a_bound_limit_does_not_plan_a_statement_anew() {
    let db = Db::in_memory(STEPS).unwrap();
    let planned = db.call("read", |conn| {
        let mut select = conn.prepare_cached("SELECT x FROM t LIMIT ?1")?;
        for limit in 1..5 {
            select.query_map([limit], |_| Ok(()))?.for_each(drop);
        }
        Ok(select.get_status(rusqlite::StatementStatus::RePrepare))
    });
    assert_eq!(planned.await.unwrap(), 0);
}

#[tokio::test]
async fn memory_keeps_nothing_after_closing() {
    let db = Db::in_memory(STEPS).unwrap();
    insert(&db, 1).await.unwrap();
    assert_eq!(count(&db).await, 1);
    db.close().await.unwrap();
    assert_eq!(count(&Db::in_memory(STEPS).unwrap()).await, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_the_file_and_its_companions() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
    insert(&db, 1).await.unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_failing_job_rolls_back_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
    let half: Result<(), StoreError> = db
        .call("half", |conn| {
            conn.execute("INSERT INTO t VALUES (7)", [])?;
            Err(StoreError::Other("no".into()))
        })
        .await;
    assert!(half.is_err());
    let (one, twice, two) = tokio::join!(insert(&db, 1), insert(&db, 1), insert(&db, 2));
    assert!(one.is_ok() && twice.is_err() && two.is_ok());
    assert_eq!(count(&db).await, 2);
}

/// Keeps the thread busy until the returned sender is dropped, so that what is called meanwhile shares a batch.
fn busy(db: &Db) -> (std::sync::mpsc::Sender<()>, impl Future<Output = Result<(), StoreError>> + '_) {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let busy = db.call("busy", move |_| {
        let _ = wait.recv();
        Ok(())
    });
    (go_on, busy)
}

#[tokio::test]
async fn a_job_of_a_batch_that_fails_or_is_refused_is_undone_alone_whatever_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
    let (go_on, busy) = busy(&db);
    let half = db.call("half", |conn| {
        conn.execute("INSERT INTO t VALUES (7)", [])?;
        conn.execute("INSERT INTO t VALUES (1)", [])?;
        Ok(())
    });
    let refused = |x: i64| {
        let work = move |conn: &Connection| {
            conn.execute("INSERT INTO t VALUES (?1)", [x])?;
            Ok(x)
        };
        db.call_written("refused", work, |_| Written::IsUndone, |_| ())
    };
    let looked = db.call_written("looked", |_| Ok(()), |()| Written::IsUndone, |()| ());
    let calls = async {
        let (first, half, eight, looked, second) =
            tokio::join!(insert(&db, 1), half, refused(8), looked, insert(&db, 2));
        assert!(first.is_ok() && half.is_err() && looked.is_ok() && second.is_ok());
        assert_eq!(eight.unwrap(), 8);
    };
    let release = async { drop(go_on) };
    let (_, (), ()) = tokio::join!(busy, calls, release);
    assert!(db.commits().calls.count() <= 2, "the five shared a batch");
    assert_eq!(count(&db).await, 2);
}

#[tokio::test]
async fn commits_are_measured_with_the_calls_they_share() {
    let db = Db::in_memory(STEPS).unwrap();
    for x in 0..3 {
        insert(&db, x).await.unwrap();
    }
    assert!(insert(&db, 0).await.is_err());
    let commits = db.commits();
    // The error was one of the call; its commit kept what there was to keep.
    assert_eq!((commits.calls.count(), commits.calls.sum(), commits.failed()), (4, 4, 0));
    assert_eq!(commits.micros.count(), 4);
    let broken: Result<(), StoreError> = db.call("end", |conn| Ok(conn.execute_batch("ROLLBACK")?)).await;
    assert!(broken.is_err());
    assert_eq!((commits.calls.count(), commits.failed()), (5, 1));
}

#[tokio::test]
async fn trouble_lasts_until_something_is_written() {
    let db = Db::in_memory(STEPS).unwrap();
    insert(&db, 1).await.unwrap();
    assert!(db.commits().trouble().is_none());
    assert!(insert(&db, 1).await.is_err());
    assert_eq!(count(&db).await, 1, "it can be read from");
    assert!(db.commits().trouble().is_some());
    insert(&db, 2).await.unwrap();
    assert!(db.commits().trouble().is_none());
}

#[tokio::test]
async fn a_full_disk_fails_the_whole_batch_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("a.db"), &["CREATE TABLE t (x INTEGER PRIMARY KEY, b BLOB)"]).unwrap();
    db.call("limit", |conn| Ok(conn.execute_batch("PRAGMA max_page_count = 8")?)).await.unwrap();
    let small = |x: i64| {
        db.call("small", move |conn| Ok(conn.execute("INSERT INTO t VALUES (?1, x'00')", [x]).map(drop)?))
    };
    let large = db.call("large", |conn| {
        Ok(conn.execute("INSERT INTO t VALUES (2, zeroblob(100000))", []).map(drop)?)
    });
    let (go_on, busy) = busy(&db);
    let (_, one, two, three, ()) = tokio::join!(busy, small(1), large, small(3), async { drop(go_on) });
    assert!(matches!(two, Err(StoreError::Full)), "{two:?}");
    let kept = i64::from(one.is_ok()) + i64::from(three.is_ok());
    assert_eq!(count(&db).await, kept, "what was answered is there, and nothing else");
    small(4).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_thread_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
    let panicked: Result<(), StoreError> = db.call("panic", |_| panic!("a defect")).await;
    assert!(matches!(panicked, Err(StoreError::Stopped)));
    db.ended().await;
    assert!(db.close().await.unwrap_err().to_string().contains("a defect"));
}

#[tokio::test]
async fn a_reader_sees_what_was_answered_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = Db::open(&path, STEPS).unwrap();
    let reader = Db::open_reader(&path).unwrap();
    for x in 0..20 {
        insert(&db, x).await.unwrap();
        assert_eq!(count(&reader).await, x + 1);
    }
    assert!(matches!(insert(&reader, 99).await, Err(StoreError::ReadOnly(_))));
    reader.close().await.unwrap();
    db.close().await.unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("a.db-wal")).map_or(0, |wal| wal.len()), 0);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_reported_as_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    std::fs::write(&path, vec![b'x'; 4096]).unwrap();
    assert!(matches!(Db::open(&path, STEPS), Err(StoreError::Damaged(_))));
}
