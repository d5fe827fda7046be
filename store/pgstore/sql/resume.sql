-- resume: note that a route goes on.
-- Locks: the route; the leases are locked already.
UPDATE {{route}}
SET paused_at = NULL, paused_by = NULL, reason = NULL, updated_at = pg_catalog.clock_timestamp()
WHERE table_name = '{{prefix}}' AND route = $1
