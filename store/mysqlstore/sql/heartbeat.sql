-- heartbeat: notes that a relay process is alive.
INSERT INTO {{relay}} (instance, version, seen_at, ttl, note)
VALUES (?1, ?2, UTC_TIMESTAMP(6), ?3, ?4)
ON DUPLICATE KEY UPDATE version = ?2, seen_at = UTC_TIMESTAMP(6), ttl = ?3, note = ?4
