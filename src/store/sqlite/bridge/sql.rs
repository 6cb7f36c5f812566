//! Every statement of the bridge's part, in one place so that a test can look at all their plans.

pub(crate) const INSERT_OUTBOX: &str = "INSERT INTO outbox (id, local_id, agent, lane, kind, sender, remote, thread, \
     reply_to, reply_key, body, refs, error, ttl, expires_at, next_at, head) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
     NOT EXISTS (SELECT 1 FROM outbox WHERE lane = ?4)) ON CONFLICT (id) DO NOTHING";
pub(crate) const DUE: &str =
    "SELECT seq FROM outbox WHERE head = 1 AND next_at <= ?1 ORDER BY next_at LIMIT ?2";
pub(crate) const ENTRY: &str = "SELECT seq, id, local_id, agent, kind, sender, remote, thread, reply_to, reply_key, \
     body, refs, error, ttl, expires_at, attempts, held, encrypt, zip IS NOT NULL, coalesce(withdrawn, 0) \
     FROM outbox LEFT JOIN outbox_parcels ON entry = seq WHERE seq = ?1";
pub(crate) const OUTBOX_LOCAL: &str = "SELECT local_id FROM outbox WHERE id = ?1";
pub(crate) const NEXT_DUE: &str =
    "SELECT next_at FROM outbox WHERE head = 1 AND next_at > ?1 ORDER BY next_at LIMIT 1";
pub(crate) const DELETE_OUTBOX: &str = "DELETE FROM outbox WHERE seq = ?1";
pub(crate) const DELETE_OUTBOX_ID: &str = "DELETE FROM outbox WHERE id = ?1 AND agent = ?2";
pub(crate) const RETHREAD: &str = "UPDATE outbox SET thread = ?2 WHERE lane = ?1";
pub(crate) const POSTPONE: &str = "UPDATE outbox SET attempts = attempts + 1, held = NULL, held_key = NULL, next_at = ?2, why = ?3 WHERE seq = ?1";
pub(crate) const HOLD_OUTBOX: &str =
    "UPDATE outbox SET held = ?2, next_at = ?3, held_key = ?4 WHERE seq = ?1";
pub(crate) const HOLD_UNREADABLE: &str = "UPDATE outbox SET held = ?2, next_at = ?3 WHERE seq = ?1";

pub(crate) const RELEASE_OUTBOX: &str =
    "UPDATE outbox SET held = NULL, held_key = NULL, next_at = ?2 WHERE seq = ?1";
pub(crate) const HELD_ENTRIES: &str = "SELECT seq, id, local_id, agent, kind, sender, remote, thread, reply_to, \
     reply_key, body, refs, error, ttl, expires_at, attempts, held, encrypt, zip IS NOT NULL, coalesce(withdrawn, 0), \
     held_key FROM outbox LEFT JOIN outbox_parcels ON entry = seq WHERE held IS NOT NULL AND expires_at > 0 ORDER BY expires_at LIMIT ?1";
pub(crate) const OUTBOX_LIST: &str = "SELECT id, local_id, agent, kind, remote, attempts, next_at, expires_at, held, \
     head, why FROM outbox WHERE seq > 0 ORDER BY seq LIMIT ?1";
pub(crate) const OUTBOX_BY_ID: &str = "SELECT id, local_id, agent, kind, remote, attempts, next_at, expires_at, held, \
     head, why FROM outbox WHERE id = ?1";
// A person asks for these counts, no client does.
pub(crate) const COUNT_OUTBOX: &str = "SELECT count(*) FROM outbox WHERE id > ''";
pub(crate) const COUNT_HELD_OUT: &str =
    "SELECT count(*) FROM outbox WHERE held IS NOT NULL AND expires_at > 0";
pub(crate) const COUNT_HELD: &str = "SELECT count(*) FROM held WHERE person > ''";

pub(crate) const INSERT_BRIDGED: &str = "INSERT INTO bridged (agent, id, local_id, direction, kind, address, remote, \
     thread, session, remote_session, reply_to, reply_key, keep_until, generation) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING";
pub(crate) const BRIDGED_BY_LOCAL: &str = "SELECT id, direction, kind, address, remote, thread, session, \
     remote_session, reply_key, closed, generation FROM bridged INDEXED BY bridged_local \
     WHERE agent = ?1 AND local_id = ?2 AND generation = ?3";
pub(crate) const BRIDGED_BY_ID: &str = "SELECT local_id, direction, kind, address, remote, thread, session, \
     remote_session, reply_key, closed, generation FROM bridged WHERE agent = ?1 AND id = ?2 AND direction = ?3";
pub(crate) const BRIDGED_BY_THREAD: &str = "SELECT session FROM bridged \
     WHERE agent = ?1 AND thread = ?2 AND remote = ?3 ORDER BY session IS NULL ASC, keep_until DESC LIMIT 1";
pub(crate) const THREAD_SINCE: &str = "SELECT min(keep_until) FROM bridged WHERE agent = ?1 AND thread = ?2";
pub(crate) const BRIDGED_ACCEPTED: &str = "UPDATE bridged SET thread = coalesce(?3, thread), remote_session = coalesce(?4, remote_session) \
     WHERE agent = ?1 AND id = ?2 AND direction = 'out'";
pub(crate) const BRIDGED_CLOSE: &str =
    "UPDATE bridged SET closed = 1 WHERE agent = ?1 AND id = ?2 AND direction = ?3";
pub(crate) const FORGET_BRIDGED: &str = "DELETE FROM bridged WHERE (agent, id, direction) IN \
     (SELECT agent, id, direction FROM bridged WHERE keep_until <= ?1 LIMIT ?2)";

pub(crate) const SET_STATUS: &str = "UPDATE messages SET status = ?2 WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_ACCEPTED: &str = "UPDATE messages SET at_accepted = coalesce(at_accepted, ?2), \
     status = CASE status WHEN 'queued' THEN 'leased' ELSE status END WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_ANSWERED: &str =
    "UPDATE messages SET at_answered = ?2, status = ?3 WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_FAILED: &str =
    "UPDATE messages SET at_failed = ?2, status = 'failed' WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_HELD: &str = "UPDATE messages SET at_held = ?2 WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_LEASED: &str =
    "UPDATE messages SET at_leased = coalesce(at_leased, ?2) WHERE id = ?1 AND inbox IS NULL";
pub(crate) const STAGE_INBOUND_HELD: &str = "UPDATE messages SET at_held = ?2 WHERE id = ?1";
pub(crate) const LOCAL_TRACE: &str = "SELECT sender, recipient, ts, kind, status, attempts, at_accepted, at_leased, \
     at_acked, at_answered, at_held, at_failed FROM messages WHERE id = ?1";
pub(crate) const V2_TRACE: &str = "SELECT origin, target, created_at, kind, status, attempts, at_accepted, at_leased, \
     at_acked, at_answered, at_held, at_failed FROM v2_messages WHERE id = ?1";
pub(crate) const STAGE_INBOUND_ANSWERED: &str = "UPDATE messages SET at_answered = ?2 WHERE id = ?1";
pub(crate) const LOCAL_ID_TAKEN: &str = "SELECT 1 FROM messages WHERE id = ?1";

pub(crate) const INSERT_FILES: &str =
    "INSERT INTO files (message, zip) SELECT seq, ?2 FROM messages WHERE id = ?1";
pub(crate) const FILES: &str = "SELECT zip FROM messages LEFT JOIN files ON message = seq \
     WHERE id = ?1 AND (inbox = ?2 OR (inbox IS NULL AND sender = ?2))";
pub(crate) const INSERT_UPLOAD: &str = "INSERT INTO uploads (agent, sha256, zip, keep_until) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (agent, sha256) DO UPDATE SET keep_until = excluded.keep_until";
pub(crate) const DROP_UPLOADS: &str = "DELETE FROM uploads WHERE id IN \
     (SELECT id FROM uploads WHERE agent = ?1 ORDER BY keep_until DESC LIMIT -1 OFFSET ?2)";
pub(crate) const UPLOAD: &str =
    "SELECT zip FROM uploads WHERE agent = ?1 AND sha256 = ?2 AND keep_until > ?3";
pub(crate) const FORGET_UPLOADS: &str =
    "DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE keep_until <= ?1 LIMIT ?2)";
pub(crate) const INSERT_PARCEL: &str =
    "INSERT INTO outbox_parcels (entry, encrypt, zip) SELECT seq, ?2, ?3 FROM outbox WHERE id = ?1";
pub(crate) const OUTBOX_ZIP: &str = "SELECT zip FROM outbox_parcels WHERE entry = ?1";
pub(crate) const STOP_OUTBOX: &str =
    "UPDATE outbox SET next_at = ?3 WHERE id = ?1 AND agent = ?2 RETURNING seq";
pub(crate) const STOP_PARCEL: &str = "INSERT INTO outbox_parcels (entry, withdrawn) VALUES (?1, 1) \
     ON CONFLICT (entry) DO UPDATE SET withdrawn = 1";
pub(crate) const GO_ON: &str = "UPDATE outbox SET next_at = ?2 WHERE seq = ?1";
pub(crate) const GO_ON_PARCEL: &str = "UPDATE outbox_parcels SET withdrawn = 0 WHERE entry = ?1";
pub(crate) const HAS_MAIL: &str = "SELECT EXISTS (SELECT 1 FROM pins) OR EXISTS (SELECT 1 FROM bridged)";
// At a start: they look at every zip that waits.
pub(crate) const STOPPED_GO_ON: &str = "UPDATE outbox SET next_at = ?1 \
     WHERE seq IN (SELECT entry FROM outbox_parcels WHERE withdrawn = 1)";
pub(crate) const STOPPED_PARCELS_GO_ON: &str = "UPDATE outbox_parcels SET withdrawn = 0 WHERE withdrawn = 1";
pub(crate) const INSERT_SEEN: &str =
    "INSERT INTO seen (agent, id, keep_until) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
// What was delivered stands in `bridged`, as long as it would stand in `seen`.
pub(crate) const IS_SEEN: &str = "SELECT 1 FROM seen WHERE agent = ?1 AND id = ?2 UNION ALL \
     SELECT 1 FROM bridged WHERE agent = ?1 AND id = ?2 AND direction = 'in'";
pub(crate) const FORGET_SEEN: &str = "DELETE FROM seen WHERE (agent, id) IN \
     (SELECT agent, id FROM seen WHERE keep_until <= ?1 LIMIT ?2)";
pub(crate) const INSERT_HELD: &str = "INSERT INTO held (agent, id, person, reason, envelope, since, key, released, leased_until) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET person = excluded.person, \
     reason = excluded.reason, envelope = excluded.envelope, key = excluded.key, released = excluded.released, \
     leased_until = CASE excluded.leased_until WHEN 0 THEN leased_until ELSE excluded.leased_until END";
pub(crate) const INSERT_HELD_FILES: &str = "INSERT INTO held_files (agent, id, zip) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET zip = excluded.zip";
pub(crate) const HELD_ZIP: &str = "SELECT zip FROM held_files WHERE agent = ?1 AND id = ?2";
pub(crate) const HELD_BYTES_OF: &str = "SELECT coalesce(sum(length(zip)), 0) FROM held CROSS JOIN held_files \
     ON held_files.agent = held.agent AND held_files.id = held.id WHERE person = ?1";
pub(crate) const HELD_BACK: &str =
    "SELECT min(leased_until) FROM held WHERE agent = ?1 AND leased_until > ?2";
pub(crate) const COUNT_HELD_OF: &str = "SELECT count(*) FROM held WHERE person = ?1";
pub(crate) const LATEST_HELD_OF: &str = "SELECT max(since) FROM held WHERE person = ?1";
pub(crate) const HELD_OF: &str = "SELECT agent, id, person, reason, envelope, since, key, released FROM held \
     WHERE person >= ?1 AND person <= ?2 ORDER BY person, since LIMIT ?3";
pub(crate) const HELD_RELEASED: &str = "SELECT agent, id, person, reason, envelope, since, key, released FROM held \
     WHERE released = 1 AND since > 0 ORDER BY since LIMIT ?1";
pub(crate) const HELD_SINCE: &str = "SELECT since FROM held WHERE agent = ?1 AND id = ?2";
pub(crate) const HELD_BY_ID: &str = "SELECT reason, since FROM held WHERE agent = ?1 AND id = ?2";
pub(crate) const DELETE_HELD: &str = "DELETE FROM held WHERE agent = ?1 AND id = ?2";
pub(crate) const RELEASE_HELD: &str = "UPDATE held SET released = 1 WHERE person = ?1 AND key = ?2";
pub(crate) const RELEASE_UNSIGNED: &str = "UPDATE held SET released = 1 WHERE person = ?1 AND key IS NULL";

pub(crate) const PINS_OF: &str = "SELECT key, verified FROM pins WHERE person = ?1";
pub(crate) const PINS: &str = "SELECT person, key, verified, since, \
     EXISTS (SELECT 1 FROM unsigned_allowed WHERE unsigned_allowed.person = pins.person) \
     FROM pins WHERE person >= ?1 AND person <= ?2 ORDER BY person, key";
pub(crate) const VERIFY_PIN: &str = "UPDATE pins SET verified = 1 WHERE person = ?1 AND key = ?2";
pub(crate) const ALLOW_UNSIGNED: &str =
    "INSERT INTO unsigned_allowed (person, since) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(crate) const IS_UNSIGNED_ALLOWED: &str = "SELECT 1 FROM unsigned_allowed WHERE person = ?1";
pub(crate) const SEALED_OF_ORG: &str =
    "SELECT address FROM sealed_addresses WHERE address >= ?1 AND address <= ?2";
pub(crate) const DELETE_SEALED: &str = "DELETE FROM sealed_addresses WHERE address = ?1";
pub(crate) const INSERT_PIN: &str =
    "INSERT INTO pins (person, key, since) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
pub(crate) const INSERT_SEALED: &str =
    "INSERT INTO sealed_addresses (address, since) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(crate) const WAS_SEALED: &str = "SELECT 1 FROM sealed_addresses WHERE address = ?1";

pub(crate) const GENERATION: &str = "SELECT generation FROM generations WHERE agent = ?1";
pub(crate) const SET_GENERATION: &str = "INSERT INTO generations (agent, generation) VALUES (?1, ?2) \
     ON CONFLICT (agent) DO UPDATE SET generation = excluded.generation";
pub(crate) const BRIDGED_MOVED: &str = "UPDATE bridged SET local_id = ?3, generation = ?4 \
     WHERE agent = ?1 AND id = ?2 AND direction = 'in'";
pub(crate) const BRIDGED_AGENT_V2: &str =
    "SELECT agent FROM bridged WHERE local_id = ?1 AND generation = 2 AND direction = 'in'";
pub(crate) const ZIP_OF: &str = "SELECT zip FROM files WHERE message = ?1";
pub(crate) const DELETE_MESSAGE: &str = "DELETE FROM messages WHERE seq = ?1";
pub(crate) const V2_ACCEPTED: &str = "UPDATE v2_messages SET at_accepted = coalesce(at_accepted, ?2), \
     status = CASE status WHEN 'queued' THEN 'leased' ELSE status END WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_DONE: &str = "UPDATE v2_messages SET status = 'completed', completed_at = ?2 \
     WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_ANSWERED: &str = "UPDATE v2_messages SET at_answered = ?2, status = ?3, completed_at = ?2 \
     WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_FAILED: &str = "UPDATE v2_messages SET at_failed = ?2, status = 'failed', completed_at = ?2 \
     WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_HELD: &str = "UPDATE v2_messages SET at_held = ?2 WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_LEASED: &str =
    "UPDATE v2_messages SET at_leased = coalesce(at_leased, ?2) WHERE id = ?1 AND inbox IS NULL";
pub(crate) const V2_INBOUND_HELD: &str = "UPDATE v2_messages SET at_held = ?2 WHERE id = ?1";
pub(crate) const V2_INBOUND_ANSWERED: &str = "UPDATE v2_messages SET at_answered = ?2 WHERE id = ?1";
pub(crate) const V2_ID_TAKEN: &str = "SELECT 1 FROM v2_messages WHERE id = ?1";
pub(crate) const V2_REDSYN: &str =
    "INSERT INTO v2_redsyn (message, redsyn, zip) SELECT seq, ?2, ?3 FROM v2_messages WHERE id = ?1";
pub(crate) const V2_ZIP_OF: &str = "SELECT zip FROM v2_redsyn WHERE message = ?1";
pub(crate) const V2_FILES: &str = "SELECT zip FROM v2_messages LEFT JOIN v2_redsyn ON message = seq \
     WHERE id = ?1 AND (inbox = ?2 OR (inbox IS NULL AND origin = ?2))";
pub(crate) const V2_DELETE: &str = "DELETE FROM v2_messages WHERE seq = ?1";
pub(crate) const FORGET_V2_AWAY: &str = "DELETE FROM v2_messages WHERE seq IN \
     (SELECT seq FROM v2_messages WHERE inbox IS NULL AND created_at <= ?1 LIMIT ?2)";

// To the minute: a conversation need not write it with every message. A clock that was set back is followed at once.
pub(crate) const SEE_REMOTE: &str = "INSERT INTO remotes (address, last_seen) VALUES (?1, ?2) \
     ON CONFLICT (address) DO UPDATE SET last_seen = excluded.last_seen \
     WHERE excluded.last_seen NOT BETWEEN last_seen AND last_seen + 59999";
pub(crate) const REMOTES: &str =
    "SELECT address, last_seen FROM remotes WHERE last_seen > ?1 ORDER BY last_seen DESC LIMIT ?2";
pub(crate) const FORGET_REMOTES: &str =
    "DELETE FROM remotes WHERE address IN (SELECT address FROM remotes WHERE last_seen <= ?1 LIMIT ?2)";
pub(crate) const SUBSCRIPTIONS: &str = "SELECT address, topic FROM subscriptions WHERE address > ''";
pub(crate) const ADD_SUBSCRIPTION: &str =
    "INSERT INTO subscriptions (address, topic) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(crate) const DROP_SUBSCRIPTION: &str = "DELETE FROM subscriptions WHERE address = ?1 AND topic = ?2";

#[cfg(test)]
pub(crate) const ALL: &[&str] = &[
    INSERT_OUTBOX,
    DUE,
    ENTRY,
    OUTBOX_LOCAL,
    NEXT_DUE,
    DELETE_OUTBOX,
    DELETE_OUTBOX_ID,
    RETHREAD,
    POSTPONE,
    HOLD_OUTBOX,
    HOLD_UNREADABLE,
    RELEASE_OUTBOX,
    HELD_ENTRIES,
    OUTBOX_LIST,
    OUTBOX_BY_ID,
    COUNT_OUTBOX,
    COUNT_HELD_OUT,
    COUNT_HELD,
    STAGE_LEASED,
    STAGE_INBOUND_HELD,
    LOCAL_TRACE,
    V2_TRACE,
    COUNT_HELD_OF,
    LATEST_HELD_OF,
    HELD_OF,
    HELD_RELEASED,
    HELD_SINCE,
    HELD_BY_ID,
    DELETE_HELD,
    RELEASE_HELD,
    RELEASE_UNSIGNED,
    PINS,
    VERIFY_PIN,
    ALLOW_UNSIGNED,
    IS_UNSIGNED_ALLOWED,
    SEALED_OF_ORG,
    DELETE_SEALED,
    INSERT_BRIDGED,
    BRIDGED_BY_LOCAL,
    BRIDGED_BY_ID,
    BRIDGED_BY_THREAD,
    THREAD_SINCE,
    BRIDGED_ACCEPTED,
    BRIDGED_CLOSE,
    FORGET_BRIDGED,
    SET_STATUS,
    STAGE_ACCEPTED,
    STAGE_ANSWERED,
    STAGE_FAILED,
    STAGE_HELD,
    STAGE_INBOUND_ANSWERED,
    LOCAL_ID_TAKEN,
    INSERT_FILES,
    FILES,
    INSERT_UPLOAD,
    DROP_UPLOADS,
    UPLOAD,
    FORGET_UPLOADS,
    INSERT_PARCEL,
    OUTBOX_ZIP,
    STOP_OUTBOX,
    STOP_PARCEL,
    GO_ON,
    GO_ON_PARCEL,
    HAS_MAIL,
    STOPPED_GO_ON,
    STOPPED_PARCELS_GO_ON,
    INSERT_SEEN,
    IS_SEEN,
    FORGET_SEEN,
    INSERT_HELD,
    INSERT_HELD_FILES,
    HELD_ZIP,
    HELD_BYTES_OF,
    HELD_BACK,
    PINS_OF,
    INSERT_PIN,
    INSERT_SEALED,
    WAS_SEALED,
    GENERATION,
    SET_GENERATION,
    BRIDGED_MOVED,
    BRIDGED_AGENT_V2,
    ZIP_OF,
    DELETE_MESSAGE,
    V2_ACCEPTED,
    V2_DONE,
    V2_ANSWERED,
    V2_FAILED,
    V2_HELD,
    V2_LEASED,
    V2_INBOUND_HELD,
    V2_INBOUND_ANSWERED,
    V2_ID_TAKEN,
    V2_REDSYN,
    V2_ZIP_OF,
    V2_FILES,
    V2_DELETE,
    FORGET_V2_AWAY,
    SEE_REMOTE,
    REMOTES,
    FORGET_REMOTES,
    SUBSCRIPTIONS,
    ADD_SUBSCRIPTION,
    DROP_SUBSCRIPTION,
];
