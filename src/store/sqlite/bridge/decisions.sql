-- What a person decides about held mail needs to know: the key that the mail came with, and that it may go on.
ALTER TABLE held ADD COLUMN key TEXT;
ALTER TABLE held ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
CREATE INDEX held_person ON held (person, since);
CREATE INDEX held_released ON held (since) WHERE released = 1;

-- The key a relay gave for the recipient, and why the last try came to nothing.
ALTER TABLE outbox ADD COLUMN held_key TEXT;
ALTER TABLE outbox ADD COLUMN why TEXT;
CREATE INDEX IF NOT EXISTS outbox_held ON outbox (expires_at) WHERE held IS NOT NULL;

-- Persons with a pinned key whose unsigned mail a person here takes all the same.
CREATE TABLE unsigned_allowed (
  person TEXT PRIMARY KEY,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
