//! For tests: no statement of the request path may walk a whole table, or its cost would grow with the store.

use rusqlite::Connection;

use super::schema::{self, Steps};

/// Whether a line of a plan goes through something from end to end, other than rows that the statement itself has found.
pub(crate) fn walks(line: &str) -> bool {
    line.contains("SCAN") && !line.starts_with("SCAN (subquery") && line != "SCAN first"
}

/// Fails on a statement whose plan scans a table or sorts rows aside.
pub(crate) fn assert_indexed(steps: Steps, statements: &[&str]) {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, steps).unwrap();
    for sql in statements {
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = vec![rusqlite::types::Value::Null; plan.parameter_count()];
        let rows =
            plan.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).unwrap();
        for row in rows {
            let row = row.unwrap();
            let walks = walks(&row) && !row.contains("USING INDEX") && !row.contains("CONSTANT ROW");
            assert!(!walks && !row.contains("TEMP B-TREE"), "{row}\n{sql}");
        }
    }
}
