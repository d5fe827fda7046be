-- pause: notes that a route is paused.
INSERT INTO {{route}} (table_name, route, paused_at, paused_by, reason, updated_at)
VALUES ('{{prefix}}', ?1, ?2, ?3, ?4, ?2)
ON CONFLICT (table_name, route) DO UPDATE
SET paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, updated_at = excluded.updated_at
