-- replay: send a message again. A settle of the earlier generation no longer
-- matches, because replays has changed.
-- Locks: the message; the leases are locked already.
UPDATE {{table}}
SET replays = replays + 1, attempts = 0, crashes = 0, dead_at = NULL, dead_reason = NULL, published_at = NULL,
    last_error = NULL, routes_done = NULL,
    available_at = GREATEST(pg_catalog.clock_timestamp(), created_at + interval '1 microsecond')
WHERE event_id = $1
RETURNING sequence
