-- step_delete_run: settle what is finished and record what was read, under one fence.
-- Published messages are one dense run of sequences and are deleted.
-- Locks: the lease row, then batches, then messages. Index: primary keys.
-- Invariant: the fence locks. One that only read the lease would see the snapshot
-- from before it waited, and a stale owner would write every row.
WITH f AS MATERIALIZED (
  SELECT 1 FROM {{lease}}
  WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.pg_postmaster_start_time() = $4
    AND pg_catalog.set_config('lock_timeout', $5, true) IS NOT NULL
  FOR NO KEY UPDATE
), u AS (
  DELETE FROM {{table}}
  WHERE sequence BETWEEN $12 AND $13 AND published_at IS NULL AND dead_at IS NULL AND replays = 0 AND (SELECT pg_catalog.count(*) FROM f) = 1
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
