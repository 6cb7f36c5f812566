//! No statement of a request reads a whole table or sorts: what one call costs must not grow with what is stored.

use super::schema;
use crate::store::sqlite::plans::assert_indexed;

/// What is due next is the first entry of its index, and LIMIT 1 ends the walk there.
const FIRST: &str = "::NEXT_EXPIRY";

#[test]
fn every_statement_is_answered_from_an_index() {
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
    let statements = lists.into_iter().flatten();
    let first = statements.clone().filter(|(name, _)| name.ends_with(FIRST));
    let first: Vec<&str> = first.map(|(_, sql)| *sql).collect();
    assert_indexed(schema::STEPS, statements.map(|(_, sql)| *sql), &first);
}
