//! How each statement finds its rows.

use super::sql;
use crate::store::sqlite::local_schema;
use crate::store::sqlite::plans;

#[test]
fn every_statement_finds_its_rows_by_an_index() {
    // One row of each will do for the first.
    let at_a_start = [sql::HAS_MAIL, sql::STOPPED_GO_ON, sql::STOPPED_PARCELS_GO_ON];
    plans::assert_indexed(local_schema::STEPS, sql::ALL.iter().copied(), &at_a_start);
}

#[test]
fn every_statement_is_in_the_list() {
    let declared = include_str!("sql.rs").matches("\npub(crate) const ").count();
    // The list itself is declared in the same way.
    assert_eq!(declared - 1, sql::ALL.len());
}

#[test]
fn no_statement_goes_through_all_that_has_crossed_for_an_agent() {
    for sql in sql::ALL {
        for line in plans::plan_of(local_schema::STEPS, sql) {
            let table = line.split_whitespace().nth(1).unwrap_or_default();
            let grows = ["bridged", "seen", "outbox", "messages"].contains(&table);
            assert!(!grows || !line.ends_with("(agent=?)"), "{line}\n{sql}");
        }
    }
}
