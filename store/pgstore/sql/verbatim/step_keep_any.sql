-- step_keep_any: settle what is finished and record what was read, under one fence.
-- Published messages are a list of ids and are marked. They are of the first generation
-- and were neither scheduled nor put back.
-- Locks: the lease row, then batches, then messages. Index: primary keys.
-- Invariant: the fence locks, and every guard is on the message's own row. A replay
-- that this statement waited for is seen there, because it makes the message available
-- later than created; its state would be read from before the wait.
WITH f AS MATERIALIZED (
  SELECT 1 FROM {{lease}}
  WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.pg_postmaster_start_time() = $4
    AND pg_catalog.set_config('lock_timeout', $5, true) IS NOT NULL
  FOR NO KEY UPDATE
), u AS (
  UPDATE {{messages}} t
  SET published_at = pg_catalog.clock_timestamp(), attempts = attempts + 1, last_error = NULL, locked_at = NULL
  WHERE id = ANY($12::uuid[]) AND published_at IS NULL AND available_at <= created_at
    AND NOT EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = t.sequence AND (s.dead_at IS NOT NULL OR s.replays <> 0))
    AND (SELECT pg_catalog.count(*) FROM f) = 1
), d AS (
  DELETE FROM {{batch}}
  WHERE shard = $1 AND epoch = $3 AND no = ANY($6::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), i AS (
  INSERT INTO {{batch}} (shard, epoch, no, ids, crashes, in_flight, solo)
  SELECT $1, $3, no, ids::int8multirange, crashes, in_flight, solo
  FROM unnest($7::bigint[], $8::text[], $9::smallint[], $10::boolean[], $11::boolean[]) AS b(no, ids, crashes, in_flight, solo)
  WHERE (SELECT pg_catalog.count(*) FROM f) = 1
  ON CONFLICT DO NOTHING
)
SELECT (SELECT pg_catalog.count(*) FROM f), pg_catalog.set_config('synchronous_commit', 'off', true)
