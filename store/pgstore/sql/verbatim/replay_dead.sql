-- replay_dead: as in the full layout, in the state table.
-- Locks: the messages and their states; the leases are locked already.
WITH s AS (
  UPDATE {{state}} s
  SET replays = s.replays + 1, crashes = 0, dead_at = NULL, dead_reason = NULL, routes_done = NULL
  FROM {{messages}} m
  WHERE m.event_id = ANY($1::uuid[]) AND m.published_at IS NULL AND s.sequence = m.sequence
    AND s.dead_at IS NOT NULL AND s.dead_reason IS DISTINCT FROM 'discarded'
  RETURNING m.event_id
)
UPDATE {{messages}} m
SET attempts = 0, last_error = NULL, locked_at = NULL,
    available_at = GREATEST(pg_catalog.clock_timestamp(), m.created_at + interval '1 microsecond') + o.delay * interval '1 microsecond'
FROM unnest($1::uuid[], $2::bigint[]) AS o(event_id, delay)
WHERE m.event_id = o.event_id AND m.event_id = ANY($1::uuid[]) AND m.event_id IN (SELECT event_id FROM s)
