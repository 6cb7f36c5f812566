//! Every statement of the local store, so that one test can see that each of them uses an index.

use crate::store::sqlite::leases::first_lease_end;
use crate::store::sqlite::load::{load_leased, load_oldest, load_queued};

/// The columns that make a [`StoredMessage`](crate::store::local::StoredMessage), in the order of `rows::message`.
macro_rules! messages {
    ($rest:literal) => {
        concat!(
            "SELECT seq, inbox, id, sender, recipient, ts, type, kind, body, reply_to, root_id, parent_id, ack, ",
            "redsyn, expires_at, status, attempts, lease_id, lease_until, redeliver, error, at_polled ",
            "FROM messages ",
            $rest
        )
    };
}

/// The columns that make an [`EndedMessage`](crate::store::local::EndedMessage), in the order of `rows::ended`.
macro_rules! ended {
    ($rest:literal) => {
        concat!(
            "SELECT seq, id, inbox, sender, recipient, kind, status, attempts, at_leased, at_polled FROM messages ",
            $rest
        )
    };
}

/// The columns that make a [`KeptMessage`](crate::store::local::KeptMessage), in the order of `rows::kept`: all.
macro_rules! kept {
    ($rest:literal) => {
        concat!(
            "SELECT seq, inbox, id, sender, recipient, ts, type, kind, body, reply_to, root_id, parent_id, ack, ",
            "redsyn, expires_at, status, attempts, lease_id, lease_until, redeliver, error, at_polled, ",
            "at_accepted, at_leased, at_acked, at_answered, at_held, at_failed FROM messages ",
            $rest
        )
    };
}

pub(super) const REGISTER: &str = "INSERT INTO agents (name, last_seen) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET last_seen = excluded.last_seen";
pub(super) const PROBE: &str =
    "UPDATE agents SET last_seen = last_seen WHERE name = (SELECT min(name) FROM agents)";
pub(super) const IS_REGISTERED: &str = "SELECT 1 FROM agents WHERE name = ?1";
pub(super) const AGENTS: &str = "SELECT name, last_seen FROM agents";

pub(super) const INSERT: &str =
    "INSERT INTO messages (id, inbox, sender, recipient, ts, type, kind, body, reply_to,
        root_id, parent_id, ack, redsyn, expires_at, status)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (id) DO NOTHING";

/// A message that comes from somewhere else with its state. Without a number it gets the next one.
pub(super) const INSERT_KEPT: &str =
    "INSERT INTO messages (seq, inbox, id, sender, recipient, ts, type, kind, body, reply_to,
        root_id, parent_id, ack, redsyn, expires_at, status, attempts, lease_id, lease_until, redeliver, error,
        at_polled, at_accepted, at_leased, at_acked, at_answered, at_held, at_failed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
        ?23, ?24, ?25, ?26, ?27, ?28)
    ON CONFLICT (id) DO NOTHING";
/// Whoever was sent a message by the reference broker had registered with it.
pub(super) const REGISTERED_ELSEWHERE: &str = "INSERT INTO agents (name, last_seen) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)";
pub(super) const KEPT_BY_SEQ: &str = kept!("WHERE seq = ?1");
pub(super) const KEPT_AFTER: &str = kept!("WHERE seq > ?1 ORDER BY seq LIMIT ?2");
pub(super) const TAKEOVER: &str = "SELECT size, changed FROM takeovers WHERE source = ?1";
pub(super) const TAKEN_OVER: &str =
    "INSERT INTO takeovers (source, size, changed, at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (source) DO UPDATE SET size = excluded.size, changed = excluded.changed, at = excluded.at";

pub(super) const ANSWERED: &str = "UPDATE messages SET at_answered = coalesce(at_answered, ?4)
    WHERE id = ?1 AND inbox = ?2 AND sender = ?3";

pub(super) const SEQ_OF: &str = "SELECT seq FROM messages WHERE id = ?1";
pub(super) const POLL_BEHIND: &str = messages!(
    "INDEXED BY messages_redeliver
    WHERE inbox = ?1 AND redeliver = 1 AND seq <= ?2 AND (expires_at IS NULL OR expires_at > ?4)
    ORDER BY seq LIMIT ?3"
);
pub(super) const POLL_AHEAD: &str = messages!(
    "INDEXED BY messages_queue
    WHERE inbox = ?1 AND status = 'queued' AND seq > ?2 AND (expires_at IS NULL OR expires_at > ?4)
    ORDER BY seq LIMIT ?3"
);
pub(super) const UNSEEN: &str = messages!(
    "INDEXED BY messages_queue
    WHERE inbox = ?1 AND status = 'queued' AND at_polled IS NULL ORDER BY seq"
);
pub(super) const SHOWN: &str =
    "UPDATE messages SET redeliver = 0, at_polled = coalesce(at_polled, ?2) WHERE seq = ?1";

pub(super) const HAS_OVERDUE: &str =
    "SELECT 1 FROM messages INDEXED BY messages_leases WHERE lease_until <= ?1";
pub(super) const REQUEUE: &str = "UPDATE messages INDEXED BY messages_leases
    SET status = 'queued', lease_id = NULL, lease_until = NULL, redeliver = 1
    WHERE lease_until <= ?1";
pub(super) const FIRST_LEASE_END: &str = first_lease_end!("messages", "messages_leases");
pub(super) const QUEUED: &str = messages!(
    "INDEXED BY messages_queue
    WHERE inbox = ?1 AND status = 'queued' AND (expires_at IS NULL OR expires_at > ?3)
    ORDER BY seq LIMIT ?2"
);
pub(super) const LEASE: &str = "UPDATE messages
    SET status = 'leased', lease_id = ?2, lease_until = ?3, redeliver = 0, at_leased = coalesce(at_leased, ?4)
    WHERE seq = ?1";

pub(super) const BY_ID: &str = messages!("WHERE id = ?1");
pub(super) const SETTLE: &str = "UPDATE messages
    SET status = ?2, attempts = ?3, lease_id = NULL, lease_until = NULL, error = ?4,
        at_acked = coalesce(?5, at_acked), at_failed = coalesce(?6, at_failed)
    WHERE seq = ?1";

pub(super) const HEAD: &str = "SELECT sender, inbox, EXISTS (SELECT 1 FROM agents WHERE name = sender)
    FROM messages WHERE id = ?1";
pub(super) const STATUS: &str =
    "SELECT id, sender, recipient, ts, kind, status, attempts, at_accepted, at_leased,
        at_acked, at_answered, at_held, at_failed
    FROM messages WHERE id = ?1 AND (inbox = ?2 OR sender = ?2)";
pub(super) const RECENT_QUEUED: &str =
    messages!("INDEXED BY messages_queue WHERE inbox = ?1 AND status = 'queued' ORDER BY seq DESC LIMIT ?2");
pub(super) const RECENT_TAKEN: &str =
    messages!("INDEXED BY messages_taken WHERE inbox = ?1 AND status <> 'queued' ORDER BY seq DESC LIMIT ?2");
/// Where a page ends that looks at so many messages of either part; 0 when both have fewer left.
pub(super) const QUERY_END: &str = "SELECT max(
    coalesce((SELECT seq FROM messages INDEXED BY messages_queue
        WHERE inbox = ?1 AND status = 'queued' AND seq < ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3), 0),
    coalesce((SELECT seq FROM messages INDEXED BY messages_taken
        WHERE inbox = ?1 AND status <> 'queued' AND seq < ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3), 0))";
pub(super) const QUERY_QUEUED: &str = messages!(
    "INDEXED BY messages_queue
    WHERE inbox = ?1 AND status = 'queued' AND seq < ?7 AND seq >= ?8
        AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR status = ?4)
        AND (?5 IS NULL OR sender = ?5) AND (?6 IS NULL OR recipient = ?6)
    ORDER BY seq DESC LIMIT ?2"
);
pub(super) const QUERY_TAKEN: &str = messages!(
    "INDEXED BY messages_taken
    WHERE inbox = ?1 AND status <> 'queued' AND seq < ?7 AND seq >= ?8
        AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR status = ?4)
        AND (?5 IS NULL OR sender = ?5) AND (?6 IS NULL OR recipient = ?6)
    ORDER BY seq DESC LIMIT ?2"
);

pub(super) const LOAD_QUEUED: &str = load_queued!("messages", "messages_queue");
pub(super) const LOAD_LEASED: &str = load_leased!("messages", "messages_leases");
pub(super) const LOAD_OLDEST: &str = load_oldest!("messages", "messages_queue", "ts");

pub(super) const ENDED_BY_SEQ: &str = ended!("WHERE seq = ?1");
pub(super) const TOO_OLD: &str = ended!("INDEXED BY messages_age WHERE ts <= ?1 ORDER BY ts LIMIT ?2");
pub(super) const OUT_OF_TIME: &str =
    ended!("INDEXED BY messages_expiry WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2");
pub(super) const DELETE: &str = "DELETE FROM messages WHERE seq = ?1";

/// All of them. A statement that is not listed here is not tested.
#[cfg(test)]
const ALL: &[&str] = &[
    REGISTER,
    PROBE,
    IS_REGISTERED,
    AGENTS,
    INSERT,
    INSERT_KEPT,
    REGISTERED_ELSEWHERE,
    KEPT_BY_SEQ,
    KEPT_AFTER,
    TAKEOVER,
    TAKEN_OVER,
    ANSWERED,
    SEQ_OF,
    POLL_BEHIND,
    POLL_AHEAD,
    UNSEEN,
    SHOWN,
    HAS_OVERDUE,
    REQUEUE,
    FIRST_LEASE_END,
    QUEUED,
    LEASE,
    BY_ID,
    SETTLE,
    HEAD,
    STATUS,
    RECENT_QUEUED,
    RECENT_TAKEN,
    QUERY_END,
    QUERY_QUEUED,
    QUERY_TAKEN,
    LOAD_QUEUED,
    LOAD_LEASED,
    LOAD_OLDEST,
    ENDED_BY_SEQ,
    TOO_OLD,
    OUT_OF_TIME,
    DELETE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::local_schema::STEPS;
    use crate::store::sqlite::plans::assert_indexed;

    #[test]
    fn every_statement_uses_an_index() {
        // `GET /peers` names every agent.
        assert_indexed(STEPS, ALL.iter().copied(), &[AGENTS]);
    }

    #[test]
    fn every_statement_is_in_the_list() {
        let declared = include_str!("sql.rs").matches("\npub(super) const ").count();
        assert_eq!(declared, ALL.len());
    }
}
