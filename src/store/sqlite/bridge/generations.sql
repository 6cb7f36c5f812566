-- Which generation of the local protocol an agent takes its mail in, as its last take has shown. Without a row: the first.
CREATE TABLE generations (
  agent TEXT NOT NULL PRIMARY KEY,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which generation the local message of what crossed is of: `local_id` is an id of `messages` or of `v2_messages`.
ALTER TABLE bridged ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
CREATE INDEX bridged_v2 ON bridged (local_id) WHERE generation = 2;

-- What inbound mail has beside the fields of the second generation.
CREATE TABLE v2_redsyn (
  message INTEGER PRIMARY KEY REFERENCES v2_messages (seq) ON DELETE CASCADE,
  redsyn TEXT NOT NULL,
  zip BLOB
) STRICT;
CREATE INDEX v2_away ON v2_messages (created_at) WHERE inbox IS NULL;

-- Who has sent mail from beyond the machine, and when last.
CREATE TABLE remotes (
  address TEXT NOT NULL PRIMARY KEY,
  last_seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX remotes_seen ON remotes (last_seen);

-- What this node has subscribed its agents to at the relay: what leaves the configuration is unsubscribed.
CREATE TABLE subscriptions (
  address TEXT NOT NULL,
  topic TEXT NOT NULL,
  PRIMARY KEY (address, topic)
) STRICT, WITHOUT ROWID;
