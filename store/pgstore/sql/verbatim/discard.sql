-- discard: as in the full layout, in the state table.
-- Locks: the messages and their states; the leases are locked already.
WITH d AS (
  UPDATE {{messages}} m
  SET available_at = LEAST(m.available_at, m.created_at), locked_at = NULL
  WHERE m.event_id = ANY($1::uuid[]) AND m.published_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = m.sequence AND s.dead_reason = 'discarded')
    AND CASE WHEN $2::boolean THEN EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = m.sequence AND s.dead_at IS NOT NULL) ELSE true END
  RETURNING m.sequence
)
INSERT INTO {{state}} (sequence, replays, dead_at, dead_reason)
SELECT sequence, 1, pg_catalog.clock_timestamp(), 'discarded' FROM d
ON CONFLICT (sequence) DO UPDATE
SET replays = {{state}}.replays + 1, dead_at = EXCLUDED.dead_at, dead_reason = EXCLUDED.dead_reason
