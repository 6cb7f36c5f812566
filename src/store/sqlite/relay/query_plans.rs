//! No statement of a request reads a whole table or sorts: what one call costs must not grow with what is stored.

use rusqlite::Connection;

use super::schema;
use crate::store::sqlite::schema::migrate;

#[test]
fn every_statement_is_answered_from_an_index() {
    let conn = Connection::open_in_memory().unwrap();
    migrate(&conn, schema::STEPS).unwrap();
    let lists = [
        super::agents::STATEMENTS,
        super::answer::STATEMENTS,
        super::audit::STATEMENTS,
        super::directory::STATEMENTS,
        super::due::STATEMENTS,
        super::events::STATEMENTS,
        super::files::STATEMENTS,
        super::inbox::STATEMENTS,
        super::invites::STATEMENTS,
        super::lanes::STATEMENTS,
        super::links::STATEMENTS,
        super::messages::STATEMENTS,
        super::orgs::STATEMENTS,
        super::people::STATEMENTS,
        super::retention::STATEMENTS,
        super::send::STATEMENTS,
        super::session_view::STATEMENTS,
        super::sessions::STATEMENTS,
        super::topics::STATEMENTS,
        super::tx::STATEMENTS,
        super::usage::STATEMENTS,
        super::webhooks::STATEMENTS,
    ];
    let mut wrong = Vec::new();
    for (name, sql) in lists.into_iter().flatten() {
        // An INSERT into a parent looks for children only while a deferred violation is open, which never is.
        conn.pragma_update(None, "foreign_keys", !sql.trim_start().starts_with("INSERT")).unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![rusqlite::types::Null; plan.parameter_count()];
        let rows = plan.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
        for line in rows.map(Result::unwrap) {
            // What is due next is the first entry of its index, and LIMIT 1 ends the walk there.
            let first_of_index = ["::NEXT_LEASE", "::NEXT_EXPIRY"].iter().any(|first| name.ends_with(first));
            if line.contains("TEMP B-TREE")
                || line.starts_with("SCAN") && !first_of_index && line != "SCAN CONSTANT ROW"
            {
                wrong.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
