-- The messages of the second generation. `inbox` is the agent of this machine that may take the message, NULL for mail
-- that leaves the machine. Times are Unix milliseconds; the `at_` columns are the stages that the message has reached.
CREATE TABLE v2_messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  inbox TEXT,
  root_id TEXT NOT NULL,
  parent_id TEXT,
  origin TEXT NOT NULL,
  target TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  session_ref TEXT NOT NULL,
  execution_mode TEXT NOT NULL,
  context TEXT NOT NULL,
  topic TEXT NOT NULL,
  allow_shared_write INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'leased', 'completed', 'failed', 'expired')),
  attempts INTEGER NOT NULL DEFAULT 0,
  lease_token TEXT,
  lease_until INTEGER,
  last_error TEXT NOT NULL DEFAULT '',
  completed_at INTEGER,
  notified_at INTEGER,
  at_accepted INTEGER,
  at_leased INTEGER,
  at_acked INTEGER,
  at_answered INTEGER,
  at_held INTEGER,
  at_failed INTEGER,
  UNIQUE (origin, idempotency_key),
  CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
  CHECK ((lease_token IS NOT NULL) = (status = 'leased' AND inbox IS NOT NULL))
) STRICT;

CREATE INDEX v2_inbox ON v2_messages (inbox, created_at);
CREATE INDEX v2_origin ON v2_messages (origin, created_at);
CREATE INDEX v2_root ON v2_messages (root_id, created_at);
CREATE INDEX v2_queue ON v2_messages (inbox) WHERE status = 'queued';
CREATE INDEX v2_unfinished ON v2_messages (inbox, created_at) WHERE status <> 'completed';
CREATE INDEX v2_leases ON v2_messages (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX v2_expiry ON v2_messages (expires_at) WHERE status IN ('queued', 'leased') AND inbox IS NOT NULL;
CREATE INDEX v2_attempts ON v2_messages (attempts) WHERE status IN ('queued', 'leased') AND inbox IS NOT NULL;
CREATE INDEX v2_finished ON v2_messages (coalesce(completed_at, created_at))
  WHERE status IN ('completed', 'failed', 'expired');

-- How many messages of an inbox are in each state: anybody may ask for them at any time, so they are not counted then.
CREATE TABLE v2_counts (
  inbox TEXT NOT NULL,
  status TEXT NOT NULL,
  messages INTEGER NOT NULL,
  PRIMARY KEY (inbox, status)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER v2_stored AFTER INSERT ON v2_messages WHEN new.inbox IS NOT NULL BEGIN
  INSERT INTO v2_counts VALUES (new.inbox, new.status, 1)
    ON CONFLICT (inbox, status) DO UPDATE SET messages = messages + 1;
END;

CREATE TRIGGER v2_changed AFTER UPDATE OF status ON v2_messages
WHEN new.inbox IS NOT NULL AND new.status <> old.status BEGIN
  UPDATE v2_counts SET messages = messages - 1 WHERE inbox = old.inbox AND status = old.status;
  DELETE FROM v2_counts WHERE inbox = old.inbox AND status = old.status AND messages = 0;
  INSERT INTO v2_counts VALUES (new.inbox, new.status, 1)
    ON CONFLICT (inbox, status) DO UPDATE SET messages = messages + 1;
END;

CREATE TRIGGER v2_deleted AFTER DELETE ON v2_messages WHEN old.inbox IS NOT NULL BEGIN
  UPDATE v2_counts SET messages = messages - 1 WHERE inbox = old.inbox AND status = old.status;
  DELETE FROM v2_counts WHERE inbox = old.inbox AND status = old.status AND messages = 0;
END;
