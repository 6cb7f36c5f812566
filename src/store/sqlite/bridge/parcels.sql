-- Zips that agents have put here for messages to come. A message that names one has a copy of its own.
CREATE TABLE uploads (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  zip BLOB NOT NULL,
  keep_until INTEGER NOT NULL,
  UNIQUE (agent, sha256)
) STRICT;
CREATE INDEX uploads_agent ON uploads (agent, keep_until);
CREATE INDEX uploads_keep ON uploads (keep_until);

-- What is needed of an outbox entry only when it is sent: the zip as it travels, in the clear, and the sender's wish: how to
-- seal it, or to have it back.
CREATE TABLE outbox_parcels (
  entry INTEGER PRIMARY KEY REFERENCES outbox (seq) ON DELETE CASCADE,
  encrypt TEXT,
  zip BLOB,
  withdrawn INTEGER NOT NULL DEFAULT 0
) STRICT;
