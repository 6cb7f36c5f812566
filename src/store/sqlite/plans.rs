//! For tests: no statement of the request path may walk a whole table, or its cost would grow with the store.

use rusqlite::Connection;

use super::schema::{self, Steps};

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
            let walks =
                row.starts_with("SCAN ") && !row.contains("USING INDEX") && !row.contains("CONSTANT ROW");
            assert!(!walks && !row.contains("TEMP B-TREE"), "{row}\n{sql}");
        }
    }
}
