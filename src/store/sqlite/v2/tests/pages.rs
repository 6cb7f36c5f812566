//! A query is answered in pages: each is bounded, and together they are the whole answer.

use rusqlite::StatementStatus;

use super::lookup::Place;
use super::*;

const TOP: Place = (i64::MAX, i64::MAX);

/// The page of `alpha` before a place, which finds nothing; and the steps that SQLite took for it.
async fn page(store: &V2Store, root: Option<&str>, before: Place, size: u32) -> (Option<Place>, i32) {
    let root_id = root.map(str::to_owned);
    let query = Query { root_id, topic: Some("none".into()), ..Query::all(name("alpha"), START, 10) };
    let page = move |conn: &rusqlite::Connection| {
        let page = lookup::query(conn, &query, before, size)?;
        assert!(page.found.is_empty());
        let mut steps = 0;
        for sql in [
            sql::SENT_END,
            sql::SENT,
            sql::RECEIVED_END,
            sql::RECEIVED,
            sql::CONVERSATION_END,
            sql::CONVERSATION,
        ] {
            steps += conn.prepare_cached(sql)?.reset_status(StatementStatus::VmStep);
        }
        Ok((page.next, steps))
    };
    store.db.call("page", page).await.unwrap()
}

#[tokio::test]
async fn a_page_costs_the_same_in_every_inbox() {
    let (mut inbox, mut conversation) = (Vec::new(), Vec::new());
    for length in [40, 400] {
        let store = store();
        // Odd ones are sent, even ones received, all in one conversation.
        for number in 1..=length {
            let (origin, target) = if number % 2 == 1 { ("alpha", "beta") } else { ("beta", "alpha") };
            let message = request(&number.to_string(), origin, target);
            create(&store, NewMessage { created_at: later(number), root_id: "root".into(), ..message }).await;
        }
        for (root, looked_at, costs) in [(None, 20, &mut inbox), (Some("root"), 10, &mut conversation)] {
            let (next, steps) = page(&store, root, TOP, 10).await;
            // Of each part the ten newest: what is older than that in one of them waits for the next page.
            let last = length + if root.is_some() { 1 } else { 2 } - looked_at;
            assert_eq!(next, Some((later(last).millis(), i64::try_from(last).unwrap())));
            costs.push(steps);
            let (mut pages, mut next) = (1, next);
            while let Some(before) = next {
                next = page(&store, root, before, 10).await.0;
                pages += 1;
            }
            let least = length / looked_at;
            assert!((least..=least + 2).contains(&pages), "{pages} pages for {length}");
        }
    }
    assert_eq!(inbox[0], inbox[1]);
    assert_eq!(conversation[0], conversation[1]);
}

/// What a query finds without pages, in the plainest way.
fn found(all: &[StoredMessage], query: &Query) -> Vec<i64> {
    let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let wanted = |stored: &&&StoredMessage| {
        let message = &stored.message;
        (message.origin == query.agent || stored.inbox.as_ref() == Some(&query.agent))
            && message.created_at >= query.since
            && is(&query.root_id, &message.root_id)
            && is(&query.origin, message.origin.as_str())
            && query.topic.as_ref().is_none_or(|topic| message.topic.contains(topic))
    };
    let mut found: Vec<_> = all.iter().collect();
    found.sort_by_key(|stored| std::cmp::Reverse((stored.message.created_at, stored.seq)));
    found.iter().filter(wanted).map(|stored| stored.seq).take(query.limit as usize).collect()
}

/// Who, to whom, when, in which conversation, about what.
type Sketch = (usize, usize, u64, usize, usize);

async fn pages_are_the_whole_answer(
    sketches: Vec<Sketch>,
    asked: (Option<usize>, Option<usize>, Option<usize>, u64),
    limit: u32,
    size: u32,
) {
    let store = store();
    let (agents, roots, topics) = (["alpha", "beta", "gamma"], ["r", "s"], ["", "tea", "teapot"]);
    let mut all = Vec::new();
    for (number, (origin, target, at, root, topic)) in sketches.into_iter().enumerate() {
        let id = number.to_string();
        let message = NewMessage {
            created_at: later(at),
            root_id: roots[root].into(),
            topic: topics[topic].into(),
            ..request(&id, agents[origin], agents[target])
        };
        create(&store, message).await;
        all.push(find(&store, &id).await);
    }
    let (origin, root, topic, since) = asked;
    let query = Query {
        origin: origin.map(|origin| agents[origin].to_owned()),
        root_id: root.map(|root| roots[root].to_owned()),
        topic: topic.map(|topic| topics[topic].to_owned()),
        ..Query::all(name("alpha"), later(since), limit)
    };
    let paged = store.query_by(size, query.clone()).await.unwrap();
    assert_eq!(paged.iter().map(|stored| stored.seq).collect::<Vec<_>>(), found(&all, &query));
    assert_eq!(store.query(query).await.unwrap(), paged);
}

proptest! {
    #[test]
    fn a_query_in_pages_finds_what_it_would_find_in_one_go(
        sketches in prop::collection::vec((0..3_usize, 0..3_usize, 0..4_u64, 0..2_usize, 0..3_usize), 0..40),
        asked in (
            prop::option::of(0..3_usize),
            prop::option::of(0..2_usize),
            prop::option::of(0..3_usize),
            0..3_u64,
        ),
        limit in 0..12_u32,
        size in 1..6_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(pages_are_the_whole_answer(sketches, asked, limit, size));
    }
}
