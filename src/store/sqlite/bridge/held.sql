-- When the relay hands held mail out again, by our clock, and its files as they travelled: the relay drops its own once
-- the message has expired.
ALTER TABLE held ADD COLUMN leased_until INTEGER NOT NULL DEFAULT 0;
CREATE TABLE held_files (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  zip BLOB NOT NULL,
  PRIMARY KEY (agent, id),
  FOREIGN KEY (agent, id) REFERENCES held (agent, id) ON DELETE CASCADE
) STRICT;
