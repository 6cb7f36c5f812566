-- Messages on their way out. A row leaves only when the relay has answered for it or it can never arrive.
CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  local_id TEXT,
  agent TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  sender TEXT NOT NULL,
  remote TEXT NOT NULL,
  thread TEXT,
  reply_to TEXT,
  reply_key TEXT,
  body TEXT NOT NULL,
  refs TEXT NOT NULL,
  error INTEGER NOT NULL,
  ttl INTEGER,
  expires_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL,
  held TEXT,
  head INTEGER NOT NULL DEFAULT 1
) STRICT;
-- Only the head of a lane, its oldest message, may be sent: what waits behind it costs nothing. `held` says why a
-- person is asked; held or not, an entry is judged again at `next_at`.
CREATE INDEX outbox_due ON outbox (next_at) WHERE head = 1;
CREATE INDEX outbox_lane ON outbox (lane, seq);
CREATE TRIGGER outbox_next_head AFTER DELETE ON outbox WHEN old.head = 1 BEGIN
  UPDATE outbox SET head = 1 WHERE seq = (SELECT seq FROM outbox WHERE lane = old.lane ORDER BY seq LIMIT 1);
END;

-- What crossed, either way: the ids on both sides, the conversation, and how far it has come. A remote sender may
-- choose an id that we have sent under: the two are different messages.
CREATE TABLE bridged (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  local_id TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('in', 'out')),
  kind TEXT NOT NULL,
  address TEXT NOT NULL,
  remote TEXT NOT NULL,
  thread TEXT,
  session TEXT,
  remote_session TEXT,
  reply_to TEXT,
  reply_key TEXT,
  closed INTEGER NOT NULL DEFAULT 0,
  keep_until INTEGER NOT NULL,
  PRIMARY KEY (agent, id, direction)
) STRICT, WITHOUT ROWID;
CREATE INDEX bridged_local ON bridged (agent, local_id);
CREATE INDEX bridged_thread ON bridged (agent, thread, remote, session IS NULL, keep_until DESC);
CREATE INDEX bridged_keep ON bridged (keep_until);

-- The zips of inbound messages, in the clear.
CREATE TABLE files (
  message INTEGER PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE,
  zip BLOB NOT NULL
) STRICT;

-- Inbound ids that have been dealt with. Those that were delivered are in `bridged` instead.
CREATE TABLE seen (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  keep_until INTEGER NOT NULL,
  PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_keep ON seen (keep_until);

CREATE TABLE held (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  person TEXT NOT NULL,
  reason TEXT NOT NULL,
  envelope TEXT NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;

-- The signing keys of each person (`org/user`): the first one seen, and those a person here accepted.
CREATE TABLE pins (
  person TEXT NOT NULL,
  key TEXT NOT NULL,
  verified INTEGER NOT NULL DEFAULT 0,
  since INTEGER NOT NULL,
  PRIMARY KEY (person, key)
) STRICT, WITHOUT ROWID;

-- Addresses that have ever had a key to seal to.
CREATE TABLE sealed_addresses (
  address TEXT PRIMARY KEY,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
