-- pause: notes that a route is paused.
INSERT INTO {{route}} (table_name, route, paused_at, paused_by, reason)
VALUES ('{{prefix}}', ?1, UTC_TIMESTAMP(6), ?2, ?3)
ON DUPLICATE KEY UPDATE paused_at = UTC_TIMESTAMP(6), paused_by = ?2, reason = ?3, updated_at = UTC_TIMESTAMP(6)
