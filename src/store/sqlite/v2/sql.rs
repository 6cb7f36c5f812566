//! Every statement of the second generation's store, so that one test can see that each of them uses an index.

use crate::store::sqlite::leases::first_lease_end;
use crate::store::sqlite::load::{load_leased, load_oldest, load_queued};

/// The columns that make a [`StoredMessage`](crate::store::v2::StoredMessage), in the order of `rows::message`.
macro_rules! messages {
    ($($rest:tt)+) => {
        concat!(
            "SELECT seq, inbox, id, root_id, parent_id, origin, target, kind, body, session_ref, execution_mode, ",
            "context, topic, allow_shared_write, idempotency_key, created_at, expires_at, status, attempts, ",
            "lease_token, lease_until, last_error, completed_at, notified_at, at_accepted, at_leased, at_acked, ",
            "at_answered, at_held, at_failed, ",
            "(SELECT redsyn FROM v2_redsyn WHERE message = seq) FROM v2_messages ",
            $($rest)+
        )
    };
}

/// What a page of a query may ask, and the order of its answer: newest first.
macro_rules! filtered {
    () => {
        " AND (created_at, seq) >= (?3, ?11) AND (created_at, seq) < (?12, ?13) AND (?4 IS NULL OR id = ?4) AND (?5 IS NULL OR root_id = ?5)
        AND (?6 IS NULL OR origin = ?6) AND (?7 IS NULL OR target = ?7) AND (?8 IS NULL OR kind = ?8)
        AND (?9 IS NULL OR status = ?9) AND (?10 IS NULL OR instr(topic, ?10) > 0)
        ORDER BY created_at DESC, seq DESC LIMIT ?2"
    };
}

/// The last message of a page that looks at so many; none when fewer are left.
macro_rules! end {
    ($part:literal) => {
        concat!(
            "SELECT created_at, seq FROM v2_messages ",
            $part,
            " AND created_at >= ?2 AND (created_at, seq) < (?3, ?4)
            ORDER BY created_at DESC, seq DESC LIMIT 1 OFFSET ?5"
        )
    };
}

pub(super) const INSERT: &str =
    "INSERT INTO v2_messages (id, inbox, root_id, parent_id, origin, target, kind, body, session_ref,
        execution_mode, context, topic, allow_shared_write, idempotency_key, created_at, expires_at, status)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT DO NOTHING";
/// A message that comes from somewhere else with its state.
pub(super) const INSERT_KEPT: &str =
    "INSERT INTO v2_messages (id, inbox, root_id, parent_id, origin, target, kind, body, session_ref,
        execution_mode, context, topic, allow_shared_write, idempotency_key, created_at, expires_at, status,
        attempts, lease_token, lease_until, last_error, completed_at, notified_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
        ?23)
    ON CONFLICT DO NOTHING";
pub(super) const KEPT_AFTER: &str = messages!("WHERE seq > ?1 ORDER BY seq LIMIT ?2");
pub(super) const ANSWERED: &str =
    "UPDATE v2_messages SET at_answered = coalesce(at_answered, ?2) WHERE id = ?1";
pub(super) const NOTIFIED: &str = "UPDATE v2_messages SET notified_at = ?2 WHERE seq = ?1";

pub(super) const BY_ID: &str = messages!("WHERE id = ?1");
pub(super) const BY_KEY: &str = messages!("WHERE origin = ?1 AND idempotency_key = ?2");

pub(super) const QUEUED: &str = messages!(
    "INDEXED BY v2_queue
    WHERE inbox = ?1 AND status = 'queued' AND expires_at > ?3 AND attempts < ?4
    ORDER BY seq LIMIT ?2"
);
pub(super) const UNSEEN: &str =
    messages!("INDEXED BY v2_queue WHERE inbox = ?1 AND status = 'queued' AND attempts = 0 ORDER BY seq");
pub(super) const PAST_TIME: &str = messages!(
    "INDEXED BY v2_expiry
    WHERE status IN ('queued', 'leased') AND inbox IS NOT NULL AND expires_at <= ?1
    ORDER BY expires_at LIMIT ?2"
);
pub(super) const EXHAUSTED: &str = messages!(
    "INDEXED BY v2_attempts
    WHERE status IN ('queued', 'leased') AND inbox IS NOT NULL AND attempts >= ?1
    ORDER BY attempts LIMIT ?2"
);
pub(super) const LEASE_OVER: &str =
    messages!("INDEXED BY v2_leases WHERE lease_until <= ?1 ORDER BY lease_until LIMIT ?2");
pub(super) const FIRST_LEASE_END: &str = first_lease_end!("v2_messages", "v2_leases");
pub(super) const CHANGE: &str = "UPDATE v2_messages
    SET status = ?2, attempts = ?3, lease_token = ?4, lease_until = ?5, last_error = ?6, completed_at = ?7,
        at_leased = coalesce(at_leased, ?8), at_acked = coalesce(?9, at_acked),
        at_failed = coalesce(?10, at_failed)
    WHERE seq = ?1";

pub(super) const SENT: &str = messages!("INDEXED BY v2_origin WHERE origin = ?1", filtered!());
pub(super) const RECEIVED: &str = messages!("INDEXED BY v2_inbox WHERE inbox = ?1", filtered!());
pub(super) const SENT_END: &str = end!("INDEXED BY v2_origin WHERE origin = ?1");
pub(super) const RECEIVED_END: &str = end!("INDEXED BY v2_inbox WHERE inbox = ?1");
pub(super) const CONVERSATION_END: &str = end!("INDEXED BY v2_root WHERE root_id = ?1");
pub(super) const CONVERSATION: &str =
    messages!("INDEXED BY v2_root WHERE root_id = ?5 AND (origin = ?1 OR inbox = ?1)", filtered!());
pub(super) const ONE: &str = messages!("WHERE id = ?4 AND (origin = ?1 OR inbox = ?1)", filtered!());
pub(super) const UNFINISHED: &str = messages!(
    "INDEXED BY v2_unfinished WHERE inbox = ?1 AND status <> 'completed'
    ORDER BY created_at DESC, seq DESC LIMIT ?2"
);
pub(super) const COUNTS: &str = "SELECT status, messages FROM v2_counts WHERE inbox = ?1";
pub(super) const OLDEST: &str = "SELECT created_at FROM v2_messages INDEXED BY v2_queue
    WHERE inbox = ?1 AND status = 'queued' ORDER BY seq LIMIT 1";

pub(super) const LOAD_QUEUED: &str = load_queued!("v2_messages", "v2_queue");
pub(super) const LOAD_LEASED: &str = load_leased!("v2_messages", "v2_leases");
pub(super) const LOAD_OLDEST: &str = load_oldest!("v2_messages", "v2_queue", "created_at");

pub(super) const TOO_OLD: &str = "SELECT seq FROM v2_messages INDEXED BY v2_finished
    WHERE status IN ('completed', 'failed', 'expired') AND coalesce(completed_at, created_at) <= ?1
    ORDER BY coalesce(completed_at, created_at) LIMIT ?2";
pub(super) const DELETE: &str = "DELETE FROM v2_messages WHERE seq = ?1";

/// All of them. A statement that is not listed here is not tested.
#[cfg(test)]
const ALL: &[&str] = &[
    INSERT,
    INSERT_KEPT,
    KEPT_AFTER,
    ANSWERED,
    NOTIFIED,
    BY_ID,
    BY_KEY,
    QUEUED,
    UNSEEN,
    PAST_TIME,
    EXHAUSTED,
    LEASE_OVER,
    FIRST_LEASE_END,
    CHANGE,
    SENT,
    RECEIVED,
    SENT_END,
    RECEIVED_END,
    CONVERSATION_END,
    CONVERSATION,
    ONE,
    UNFINISHED,
    COUNTS,
    OLDEST,
    LOAD_QUEUED,
    LOAD_LEASED,
    LOAD_OLDEST,
    TOO_OLD,
    DELETE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::local_schema::STEPS;
    use crate::store::sqlite::plans::assert_indexed;

    #[test]
    fn every_statement_uses_an_index() {
        assert_indexed(STEPS, ALL.iter().copied(), &[]);
    }

    #[test]
    fn every_statement_is_in_the_list() {
        let declared = include_str!("sql.rs").matches("\npub(super) const ").count();
        assert_eq!(declared, ALL.len());
    }
}
