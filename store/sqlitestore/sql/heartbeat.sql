-- heartbeat: notes that a relay process is alive.
INSERT INTO {{relay}} (instance, version, seen_at, ttl, note)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (instance) DO UPDATE
SET version = excluded.version, seen_at = excluded.seen_at, ttl = excluded.ttl, note = excluded.note
