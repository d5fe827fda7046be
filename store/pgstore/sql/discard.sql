-- discard: give messages up. replays changes, so that no outcome of what is in flight
-- brings one back. $2: only those that are dead.
-- Locks: the messages; the leases are locked already. Index: {{prefix}}_event_id_key.
UPDATE {{table}}
SET replays = replays + 1, dead_at = pg_catalog.clock_timestamp(), dead_reason = 'discarded',
    available_at = LEAST(available_at, created_at)
WHERE event_id = ANY($1::uuid[]) AND published_at IS NULL AND dead_reason IS DISTINCT FROM 'discarded'
  AND CASE WHEN $2::boolean THEN dead_at IS NOT NULL ELSE true END
