//! A query is answered in pages: each is bounded, and together they are the whole answer.

use rusqlite::StatementStatus;

use super::*;

fn query(limit: u32) -> Query {
    Query { agent: agent("beta"), limit, kind: None, status: None, from: None, to: None }
}

/// The page before a number that asks for something else, and the steps that SQLite took for it.
async fn page(store: &LocalStore, before: i64, size: u32) -> (Option<i64>, i32) {
    let query = Query { from: Some("nobody".into()), ..query(10) };
    let page = move |conn: &rusqlite::Connection| {
        let page = lookup::query(conn, &query, before, size)?;
        assert!(page.found.is_empty());
        let mut steps = 0;
        for sql in [sql::QUERY_END, sql::QUERY_QUEUED, sql::QUERY_TAKEN] {
            steps += conn.prepare_cached(sql)?.reset_status(StatementStatus::VmStep);
        }
        Ok((page.next, steps))
    };
    store.db.call("page", page).await.unwrap()
}

#[tokio::test]
async fn a_page_costs_the_same_in_every_inbox() {
    let mut costs = Vec::new();
    for length in [40, 400] {
        let ids: Vec<String> = (1..=length).map(|number| number.to_string()).collect();
        let store = store_with(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let take = |conn: &rusqlite::Connection| {
            Ok(conn.execute("UPDATE messages SET status = 'done' WHERE seq % 2 = 0", [])?)
        };
        store.db.call("take", take).await.unwrap();
        // Of each part the ten newest: what is older than that in one of them waits for the next page.
        let (next, steps) = page(&store, i64::MAX, 10).await;
        assert_eq!(next, Some(length - 18));
        costs.push(steps);
        let (mut pages, mut next) = (1, next);
        while let Some(before) = next {
            next = page(&store, before, 10).await.0;
            pages += 1;
        }
        assert!((length / 20..=length / 20 + 2).contains(&pages), "{pages} pages for {length}");
    }
    assert_eq!(costs[0], costs[1]);
}

/// What a query finds without pages, in the plainest way.
fn found(all: &[StoredMessage], query: &Query) -> Vec<i64> {
    let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let wanted = |stored: &&StoredMessage| {
        is(&query.kind, stored.message.kind.as_str())
            && is(&query.status, stored.delivery.state.status().as_str())
            && is(&query.from, stored.message.from.as_str())
            && is(&query.to, stored.message.to.as_str())
    };
    all.iter().filter(wanted).map(|stored| stored.seq).take(query.limit as usize).collect()
}

async fn pages_are_the_whole_answer(
    messages: Vec<(bool, bool, u8)>,
    asked: (Option<bool>, Option<bool>, Option<u8>),
    limit: u32,
    size: u32,
) {
    let store = store_with(&[]).await;
    let (kinds, senders) = ([Kind::Request, Kind::Reply], ["alpha", "gamma"]);
    for (number, (kind, sender, _)) in messages.iter().enumerate() {
        let new = NewMessage {
            kind: kinds[usize::from(*kind)],
            from: agent(senders[usize::from(*sender)]).into(),
            ..message(&number.to_string(), "beta")
        };
        store.send(new, agent("beta"), |_| ()).await.unwrap().unwrap();
    }
    let statuses = ["queued", "done", "failed"];
    let ended =
        messages.iter().enumerate().map(|(number, (.., status))| (number, statuses[usize::from(*status)]));
    let ended: Vec<_> = ended.map(|(number, status)| (status, number.to_string())).collect();
    let end = move |conn: &rusqlite::Connection| {
        for (status, id) in &ended {
            conn.execute("UPDATE messages SET status = ?1 WHERE id = ?2", [*status, id.as_str()])?;
        }
        Ok(())
    };
    store.db.call("end", end).await.unwrap();
    let (kind, from, status) = asked;
    let query = Query {
        kind: kind.map(|kind| kinds[usize::from(kind)].as_str().to_owned()),
        from: from.map(|from| senders[usize::from(from)].to_owned()),
        status: status.map(|status| statuses[usize::from(status)].to_owned()),
        to: Some("beta".into()),
        ..query(limit)
    };
    let all = store.recent(agent("beta"), 100).await.unwrap();
    assert_eq!(all.len(), messages.len());
    let paged = store.query_by(size, query.clone()).await.unwrap();
    assert_eq!(paged.iter().map(|stored| stored.seq).collect::<Vec<_>>(), found(&all, &query));
    assert_eq!(store.query(query).await.unwrap(), paged);
}

proptest! {
    #[test]
    fn a_query_in_pages_finds_what_it_would_find_in_one_go(
        messages in prop::collection::vec((any::<bool>(), any::<bool>(), 0..3_u8), 0..40),
        asked in (any::<Option<bool>>(), any::<Option<bool>>(), prop::option::of(0..3_u8)),
        limit in 0..12_u32,
        size in 1..6_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(pages_are_the_whole_answer(messages, asked, limit, size));
    }
}
