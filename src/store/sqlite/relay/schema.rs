//! The tables of the relay. A step that has shipped is never changed.
//!
//! Deliveries wait in lanes: within a lane (a session, or a thread when there is none) order is kept. A row of
//! `lanes` says which waiting delivery is next and who may take it, so that a take reads only what it hands out.

use crate::store::sqlite::schema::Steps;

pub(super) const STEPS: Steps = &[FIRST, SECOND, THIRD, FOURTH, FIFTH];

const FIRST: &str = "
CREATE TABLE people (
    id INTEGER PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    plan TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    person INTEGER NOT NULL REFERENCES people (id),
    name TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    public_key TEXT,
    enc_key TEXT,
    enc_sig TEXT,
    created INTEGER NOT NULL,
    UNIQUE (person, name)
) STRICT;

CREATE TABLE orgs (
    id INTEGER PRIMARY KEY,
    handle TEXT NOT NULL UNIQUE,
    creator INTEGER NOT NULL REFERENCES people (id),
    version TEXT NOT NULL,
    agents INTEGER NOT NULL DEFAULT 0,
    files_bytes INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE members (
    org INTEGER NOT NULL REFERENCES orgs (id),
    person INTEGER NOT NULL REFERENCES people (id),
    handle TEXT NOT NULL,
    admin INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (person, org),
    UNIQUE (org, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE teams (
    id INTEGER PRIMARY KEY,
    org INTEGER NOT NULL REFERENCES orgs (id),
    handle TEXT NOT NULL,
    UNIQUE (org, handle)
) STRICT;

CREATE TABLE team_members (
    person INTEGER NOT NULL REFERENCES people (id),
    org INTEGER NOT NULL REFERENCES orgs (id),
    team INTEGER NOT NULL REFERENCES teams (id),
    PRIMARY KEY (person, org, team)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    id INTEGER PRIMARY KEY,
    org INTEGER NOT NULL REFERENCES orgs (id),
    team INTEGER NOT NULL REFERENCES teams (id),
    person INTEGER NOT NULL REFERENCES people (id),
    address TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    adapter TEXT NOT NULL DEFAULT '',
    listening INTEGER NOT NULL DEFAULT 0,
    policy TEXT NOT NULL DEFAULT '{}',
    node INTEGER REFERENCES nodes (id),
    last_take INTEGER,
    sessions INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX agents_org ON agents (org, address);
CREATE INDEX agents_online ON agents (org, last_take);

CREATE TABLE sessions (
    agent INTEGER NOT NULL REFERENCES agents (id),
    number INTEGER NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    open INTEGER NOT NULL DEFAULT 1,
    created INTEGER NOT NULL,
    PRIMARY KEY (agent, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE session_people (
    agent INTEGER NOT NULL,
    number INTEGER NOT NULL,
    person INTEGER NOT NULL REFERENCES people (id),
    PRIMARY KEY (agent, number, person),
    FOREIGN KEY (agent, number) REFERENCES sessions (agent, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_threads (
    agent INTEGER NOT NULL REFERENCES agents (id),
    thread TEXT NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (agent, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    person INTEGER REFERENCES people (id),
    org INTEGER NOT NULL REFERENCES orgs (id),
    kind TEXT NOT NULL,
    from_agent INTEGER NOT NULL REFERENCES agents (id),
    from_session INTEGER,
    from_text TEXT NOT NULL,
    to_text TEXT NOT NULL,
    thread TEXT NOT NULL,
    reply_to TEXT,
    ts INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    created INTEGER NOT NULL,
    body TEXT NOT NULL,
    encrypted INTEGER NOT NULL,
    refs TEXT NOT NULL,
    error INTEGER NOT NULL,
    sig_key TEXT,
    sig_value TEXT,
    sig_payload TEXT,
    sig_node TEXT,
    sig_fingerprint TEXT,
    files_bytes INTEGER,
    files_sha256 TEXT,
    topic TEXT,
    state TEXT NOT NULL DEFAULT 'open',
    waiting INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_from_session ON messages (from_agent, from_session, seq) WHERE from_session IS NOT NULL;

CREATE TABLE participants (
    person INTEGER NOT NULL REFERENCES people (id),
    thread TEXT NOT NULL,
    message INTEGER NOT NULL REFERENCES messages (seq),
    PRIMARY KEY (person, thread, message)
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    message INTEGER PRIMARY KEY REFERENCES messages (seq),
    org INTEGER NOT NULL REFERENCES orgs (id),
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE deliveries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    message INTEGER NOT NULL REFERENCES messages (seq),
    agent INTEGER NOT NULL REFERENCES agents (id),
    session INTEGER,
    lane TEXT NOT NULL,
    to_text TEXT NOT NULL,
    reply_to TEXT,
    reserved INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    lease_node INTEGER,
    expires INTEGER NOT NULL,
    done TEXT,
    UNIQUE (message, agent)
) STRICT;
CREATE INDEX deliveries_free ON deliveries (agent, lane, seq) WHERE done IS NULL AND lease_until IS NULL;
CREATE INDEX deliveries_queue ON deliveries (agent, seq) WHERE done IS NULL AND lease_until IS NULL;
CREATE INDEX deliveries_answers ON deliveries (agent, reply_to, seq)
    WHERE reply_to IS NOT NULL AND done IS NULL AND lease_until IS NULL;
CREATE INDEX deliveries_expiry ON deliveries (expires) WHERE done IS NULL AND lease_until IS NULL;
CREATE INDEX deliveries_held ON deliveries (agent, lane, lease_node, seq) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_agent_lease ON deliveries (agent, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX deliveries_session ON deliveries (agent, session, seq) WHERE session IS NOT NULL;

CREATE TABLE lanes (
    agent INTEGER NOT NULL REFERENCES agents (id),
    lane TEXT NOT NULL,
    next_seq INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    PRIMARY KEY (agent, lane)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_next ON lanes (agent, owner, next_seq);

CREATE TABLE keys_served (
    person INTEGER NOT NULL REFERENCES people (id),
    agent INTEGER NOT NULL REFERENCES agents (id),
    node INTEGER NOT NULL REFERENCES nodes (id),
    PRIMARY KEY (person, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE daily_usage (
    org INTEGER NOT NULL REFERENCES orgs (id),
    day INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (org, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE links (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL
) STRICT;

CREATE TABLE link_sides (
    org INTEGER NOT NULL REFERENCES orgs (id),
    other INTEGER NOT NULL REFERENCES orgs (id),
    link INTEGER NOT NULL REFERENCES links (id),
    accepted INTEGER NOT NULL,
    signed_only INTEGER NOT NULL DEFAULT 1,
    ips TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (org, other)
) STRICT, WITHOUT ROWID;

CREATE TABLE exposures (
    org INTEGER NOT NULL,
    other INTEGER NOT NULL,
    kind TEXT NOT NULL,
    pattern TEXT NOT NULL,
    PRIMARY KEY (org, other, kind, pattern),
    FOREIGN KEY (org, other) REFERENCES link_sides (org, other)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    org INTEGER REFERENCES orgs (id),
    link INTEGER REFERENCES links (id),
    person INTEGER REFERENCES people (id),
    by TEXT NOT NULL,
    at INTEGER NOT NULL,
    what TEXT NOT NULL
) STRICT;
CREATE INDEX audit_link ON audit (link, id) WHERE link IS NOT NULL;
CREATE INDEX audit_org ON audit (org, id) WHERE org IS NOT NULL;
";

/// Topics, webhooks, invitations, and people and nodes that were removed. What was removed keeps its row: messages
/// refer to it, and its number must never mean somebody else.
const SECOND: &str = "
CREATE TABLE topics (
    id INTEGER PRIMARY KEY,
    org INTEGER NOT NULL REFERENCES orgs (id),
    address TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX topics_org ON topics (org, address);

CREATE TABLE subscriptions (
    topic INTEGER NOT NULL REFERENCES topics (id),
    agent INTEGER NOT NULL REFERENCES agents (id),
    PRIMARY KEY (topic, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_agent ON subscriptions (agent, topic);

CREATE TABLE topic_sessions (
    topic INTEGER NOT NULL REFERENCES topics (id),
    agent INTEGER NOT NULL REFERENCES agents (id),
    session INTEGER NOT NULL,
    PRIMARY KEY (topic, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhooks (
    agent INTEGER PRIMARY KEY REFERENCES agents (id),
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE invites (
    org INTEGER NOT NULL REFERENCES orgs (id),
    email TEXT NOT NULL,
    team INTEGER NOT NULL REFERENCES teams (id),
    created INTEGER NOT NULL,
    PRIMARY KEY (email, org)
) STRICT, WITHOUT ROWID;

ALTER TABLE orgs ADD COLUMN webhooks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE people ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
";

/// What retention needs: when a message ended, and how long its id stays known after it was deleted. When the older ones
/// ended is not known; by the end of their time they had. `participants` no longer refers to `messages`: deleting one
/// would walk the whole table for rows that refer to it.
const THIRD: &str = "
ALTER TABLE messages ADD COLUMN ended INTEGER;
ALTER TABLE messages ADD COLUMN id_until INTEGER;
UPDATE messages SET ended = expires WHERE waiting <= 0;
CREATE INDEX messages_ended ON messages (ended) WHERE ended IS NOT NULL;
CREATE INDEX messages_id_until ON messages (id_until) WHERE id_until IS NOT NULL;

CREATE TABLE new_participants (
    person INTEGER NOT NULL REFERENCES people (id),
    thread TEXT NOT NULL,
    message INTEGER NOT NULL,
    PRIMARY KEY (person, thread, message)
) STRICT, WITHOUT ROWID;
INSERT INTO new_participants SELECT person, thread, message FROM participants;
DROP TABLE participants;
ALTER TABLE new_participants RENAME TO participants;

CREATE INDEX topic_sessions_session ON topic_sessions (agent, session);
";

/// Addresses in small letters, as they are read from now on. Of two that differ in nothing else one is written so, and
/// the other keeps its spelling: that person is still reached by their id.
const FOURTH: &str = "
UPDATE people SET email = lower(email) WHERE email <> lower(email) AND NOT EXISTS (
    SELECT 1 FROM people AS other
    WHERE lower(other.email) = lower(people.email) AND other.id <> people.id
        AND (other.email = lower(other.email) OR other.id < people.id));
";

/// One index for leases that are over, of all mailboxes or of one: those of others have been swept, or soon are.
const FIFTH: &str = "
DROP INDEX deliveries_agent_lease;
DROP INDEX deliveries_lease;
CREATE INDEX deliveries_due ON deliveries (lease_until, agent) WHERE lease_until IS NOT NULL;
";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::sqlite::schema::migrate;

    fn texts(conn: &Connection, sql: &str) -> Vec<String> {
        let mut rows = conn.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_store_of_the_second_step_goes_on() {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "foreign_keys", true).unwrap();
        migrate(&conn, &[FIRST, SECOND]).unwrap();
        conn.execute_batch(
            "INSERT INTO people (id, email, plan, created) VALUES
                 (1, 'Ana@X.org', 'pro', 0), (2, 'Bob@X.org', 'pro', 0), (3, 'bob@x.org', 'pro', 0),
                 (4, 'Eva@x.org', 'pro', 0), (5, 'EVA@x.org', 'pro', 0), (6, 'removed p6', 'pro', 0);
             INSERT INTO orgs (id, handle, creator, version, created) VALUES (1, 'acme', 1, '', 0);
             INSERT INTO teams (id, org, handle) VALUES (1, 1, 'general');
             INSERT INTO agents (id, org, team, person, address, created) VALUES (1, 1, 1, 1, 'a', 0);
             INSERT INTO messages (seq, id, org, kind, from_agent, from_text, to_text, thread, ts, ttl, expires,
                 created, body, encrypted, refs, error, waiting) VALUES
                 (1, 'done', 1, 'request', 1, '', '', 't', 0, 60, 60000, 0, '', 0, '[]', 0, 0),
                 (2, 'waits', 1, 'request', 1, '', '', 't', 0, 60, 60000, 0, '', 0, '[]', 0, 1);
             INSERT INTO participants (person, thread, message) VALUES (1, 't', 1), (1, 't', 2);",
        )
        .unwrap();
        migrate(&conn, STEPS).unwrap();
        let emails = ["ana@x.org", "Bob@X.org", "bob@x.org", "eva@x.org", "EVA@x.org", "removed p6"];
        assert_eq!(texts(&conn, "SELECT email FROM people ORDER BY id"), emails);
        let ended = texts(&conn, "SELECT id FROM messages WHERE ended = 60000 AND id_until IS NULL");
        assert_eq!(ended, ["done"], "by the end of its time, for the moment is not known");
        assert_eq!(texts(&conn, "SELECT message || thread FROM participants"), ["1t", "2t"]);
    }
}
