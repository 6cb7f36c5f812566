//! The tables of the local store: the broker's, then the bridge's, then those of the second generation.

use super::schema::Steps;

pub const STEPS: Steps = &[
    MESSAGES,
    super::bridge::SCHEMA,
    super::v2::SCHEMA,
    TAKEOVERS,
    super::bridge::DECISIONS,
    super::bridge::PARCELS,
    super::bridge::GENERATIONS,
    INBOXES,
    super::bridge::HELD,
];

/// `inbox` is the agent of this machine that may take the message, NULL for mail that leaves the machine.
/// Bodies and references are JSON texts, NULL for JSON's null. `error` is a JSON text too, NULL before the first
/// acknowledgement. Times are Unix milliseconds; the `at_` columns are the stages that the message has reached.
const MESSAGES: &str = "
    CREATE TABLE agents (
        name TEXT NOT NULL PRIMARY KEY,
        last_seen INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        inbox TEXT,
        sender TEXT NOT NULL,
        recipient TEXT NOT NULL,
        ts INTEGER NOT NULL,
        type TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        reply_to TEXT,
        root_id TEXT,
        parent_id TEXT,
        ack INTEGER NOT NULL,
        redsyn TEXT,
        expires_at INTEGER,
        status TEXT NOT NULL CHECK (status IN ('queued', 'leased', 'done', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        lease_id TEXT,
        lease_until INTEGER,
        redeliver INTEGER NOT NULL DEFAULT 0,
        error TEXT,
        at_polled INTEGER,
        at_accepted INTEGER,
        at_leased INTEGER,
        at_acked INTEGER,
        at_answered INTEGER,
        at_held INTEGER,
        at_failed INTEGER,
        CHECK ((lease_id IS NULL) = (lease_until IS NULL)),
        CHECK ((lease_id IS NOT NULL) = (status = 'leased' AND inbox IS NOT NULL)),
        CHECK (redeliver = 0 OR status = 'queued')
    ) STRICT;

    CREATE INDEX messages_inbox ON messages (inbox);
    CREATE INDEX messages_queue ON messages (inbox) WHERE status = 'queued';
    CREATE INDEX messages_redeliver ON messages (inbox) WHERE redeliver = 1;
    CREATE INDEX messages_leases ON messages (lease_until) WHERE lease_until IS NOT NULL;
    CREATE INDEX messages_age ON messages (ts);
    CREATE INDEX messages_expiry ON messages (expires_at) WHERE expires_at IS NOT NULL;
";

/// A message stands in one index of its inbox: the queue, or the rest. To send is then to write one of them.
const INBOXES: &str = "
    DROP INDEX messages_inbox;
    CREATE INDEX messages_taken ON messages (inbox) WHERE status <> 'queued';
";

/// The files of another broker whose messages have been taken over, as they were then.
const TAKEOVERS: &str = "
    CREATE TABLE takeovers (
        source TEXT NOT NULL PRIMARY KEY,
        size INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";
