-- pause: note that a route is paused.
-- Locks: the route; the leases are locked already.
INSERT INTO {{route}} (table_name, route, paused_at, paused_by, reason)
VALUES ('{{prefix}}', $1, pg_catalog.clock_timestamp(), $2, $3)
ON CONFLICT (table_name, route) DO UPDATE
SET paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by, reason = EXCLUDED.reason, updated_at = EXCLUDED.paused_at
