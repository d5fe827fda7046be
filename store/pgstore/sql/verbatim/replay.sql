-- replay: send a message again; its generation is in the state table.
-- Locks: the message and its state; the leases are locked already.
WITH s AS (
  INSERT INTO {{state}} (sequence, replays)
  SELECT sequence, 1 FROM {{messages}} WHERE event_id = $1
  ON CONFLICT (sequence) DO UPDATE
  SET replays = {{state}}.replays + 1, crashes = 0, dead_at = NULL, dead_reason = NULL, routes_done = NULL
)
UPDATE {{messages}}
SET attempts = 0, published_at = NULL, last_error = NULL, locked_at = NULL,
    available_at = GREATEST(pg_catalog.clock_timestamp(), created_at + interval '1 microsecond')
WHERE event_id = $1
RETURNING sequence
