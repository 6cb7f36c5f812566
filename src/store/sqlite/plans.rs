//! For tests: no statement of the request path may walk a whole table or index, or its cost would grow with the store.

use rusqlite::Connection;

use super::schema::{self, Steps};

/// Whether a line of a plan goes through something from end to end, builds an index for that, or sorts rows aside. What
/// the statement itself has found may be gone through.
fn grows(line: &str) -> bool {
    let walks = line.contains("SCAN")
        && !line.starts_with("SCAN (subquery")
        && !matches!(line, "SCAN first" | "SCAN CONSTANT ROW");
    walks || line.contains("AUTOMATIC") || line.contains("TEMP B-TREE")
}

/// The lines of the plan of one statement.
pub(crate) fn plan_of(steps: Steps, sql: &str) -> Vec<String> {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, steps).unwrap();
    plan(&conn, sql)
}

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nulls = vec![rusqlite::types::Null; plan.parameter_count()];
    let lines = plan.query_map(rusqlite::params_from_iter(nulls), |row| row.get(3)).unwrap();
    lines.map(Result::unwrap).collect()
}

/// Fails on a statement whose cost grows with what is stored, unless it is one of `scans`, and on one of those that
/// does not.
pub(crate) fn assert_indexed<'a>(
    steps: Steps,
    statements: impl IntoIterator<Item = &'a str>,
    scans: &[&'a str],
) {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, steps).unwrap();
    let wrong: Vec<String> = statements
        .into_iter()
        .filter_map(|sql| {
            // An INSERT into a parent looks for children only while a deferred violation is open, which never is.
            conn.pragma_update(None, "foreign_keys", !sql.trim_start().starts_with("INSERT")).unwrap();
            let lines = plan(&conn, sql);
            let grows = lines.iter().any(|line| grows(line));
            (grows != scans.contains(&sql)).then(|| format!("{sql}\n  {}", lines.join("\n  ")))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const STEPS: Steps = &["CREATE TABLE mail (seq INTEGER PRIMARY KEY, inbox TEXT, at INTEGER) STRICT;
        CREATE INDEX by_inbox ON mail (inbox);
        CREATE INDEX by_time ON mail (at);"];

    #[test]
    fn whatever_grows_with_the_store_is_refused_unless_it_is_named() {
        for bounded in [
            "SELECT seq FROM mail WHERE inbox = ?1",
            "SELECT seq FROM mail WHERE inbox = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 5",
            "SELECT seq FROM mail WHERE at <= ?1 ORDER BY at",
            "INSERT INTO mail (inbox) VALUES (?1)",
            "SELECT max(coalesce((SELECT seq FROM mail WHERE inbox = ?1), 0), 1)",
        ] {
            assert_indexed(STEPS, [bounded], &[]);
            assert!(catch_unwind(|| assert_indexed(STEPS, [bounded], &[bounded])).is_err(), "{bounded}");
        }
        for growing in [
            "SELECT seq FROM mail",
            "SELECT inbox FROM mail ORDER BY inbox LIMIT 5",
            "SELECT count(*) FROM mail",
            "SELECT seq FROM mail WHERE inbox = ?1 ORDER BY at",
            "SELECT mine.seq FROM mail AS mine JOIN mail AS other ON other.seq + 1 = mine.at WHERE mine.inbox = ?1",
        ] {
            assert_indexed(STEPS, [growing], &[growing]);
            assert!(catch_unwind(|| assert_indexed(STEPS, [growing], &[])).is_err(), "{growing}");
        }
    }
}
