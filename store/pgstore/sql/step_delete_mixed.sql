-- step_delete_mixed: settle what is finished and record what was read, under one fence.
-- As step_delete_any, with failures and deferrals, started batches and beats.
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
  WHERE sequence = ANY($12::bigint[]) AND published_at IS NULL AND dead_at IS NULL AND replays = 0 AND (SELECT pg_catalog.count(*) FROM f) = 1
), d AS (
  DELETE FROM {{batch}}
  WHERE shard = $1 AND epoch = $3 AND no = ANY($6::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), i AS (
  INSERT INTO {{batch}} (shard, epoch, no, ids, crashes, in_flight, solo)
  SELECT $1, $3, no, ids::int8multirange, crashes, in_flight, solo
  FROM unnest($7::bigint[], $8::text[], $9::smallint[], $10::boolean[], $11::boolean[]) AS b(no, ids, crashes, in_flight, solo)
  WHERE (SELECT pg_catalog.count(*) FROM f) = 1
  ON CONFLICT DO NOTHING
), s AS (
  UPDATE {{batch}} SET in_flight = true, lost = false, beat = NULL, recorded_at = pg_catalog.clock_timestamp(),
      server = pg_catalog.pg_postmaster_start_time()
  WHERE shard = $1 AND epoch = $3 AND no = ANY($13::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), b AS (
  UPDATE {{batch}} SET beat = pg_catalog.clock_timestamp()
  WHERE shard = $1 AND epoch = $3 AND no = ANY($14::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), o AS MATERIALIZED (
  SELECT * FROM unnest($15::bigint[], $16::smallint[], $17::smallint[], $18::integer[], $19::integer[], $20::bigint[],
      $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[])
    AS o(sequence, kind, replays, attempts, spent, delay, reason, error, route, took, routes_done)
), e AS (
  DELETE FROM {{table}} t
  USING o
  WHERE t.sequence = o.sequence AND t.sequence = ANY($15::bigint[])
    AND t.published_at IS NULL AND t.dead_at IS NULL AND t.replays = o.replays AND (SELECT pg_catalog.count(*) FROM f) = 1
    AND o.kind = 0
), r AS (
  UPDATE {{table}} t
  SET published_at = CASE WHEN o.kind = 0 THEN pg_catalog.clock_timestamp() END,
      dead_at = CASE WHEN o.kind = 2 THEN pg_catalog.clock_timestamp() END,
      dead_reason = CASE WHEN o.kind = 2 THEN o.reason END,
      attempts = t.attempts + o.spent,
      last_error = CASE WHEN o.kind = 0 THEN NULL ELSE COALESCE(NULLIF(o.error, ''), t.last_error) END,
      available_at = CASE WHEN o.kind IN (0, 2) THEN LEAST(t.available_at, t.created_at)
        ELSE GREATEST(pg_catalog.clock_timestamp() + o.delay * interval '1 microsecond', t.created_at + interval '1 microsecond') END,
      routes_done = CASE WHEN o.routes_done IS NULL THEN t.routes_done
        ELSE ARRAY(SELECT pg_catalog.json_array_elements_text(o.routes_done::json)) END
  FROM o
  WHERE t.sequence = o.sequence AND t.sequence = ANY($15::bigint[])
    AND t.published_at IS NULL AND t.dead_at IS NULL AND t.replays = o.replays AND (SELECT pg_catalog.count(*) FROM f) = 1
    AND (o.kind = 0 OR t.attempts = o.attempts)
    AND o.kind <> 0
  RETURNING t.sequence, o.kind, t.attempts, o.route, o.error, o.took
), h AS (
  INSERT INTO {{attempt}} (sequence, attempt, route, outcome, error, took)
  SELECT sequence, attempts, route, (ARRAY['published', 'retry', 'dead', 'deferred'])[kind + 1], error, took
  FROM r WHERE kind IN (1, 2) OR (kind = 3 AND error <> '')
), x AS (
  DELETE FROM {{attempt}}
  WHERE id IN (
      SELECT id FROM (
        SELECT id, pg_catalog.row_number() OVER (PARTITION BY sequence ORDER BY id DESC) AS n
        FROM {{attempt}} WHERE sequence = ANY($15::bigint[])
      ) old WHERE n >= 20
    ) AND (SELECT pg_catalog.count(*) FROM f) = 1
)
SELECT (SELECT pg_catalog.count(*) FROM f), pg_catalog.set_config('synchronous_commit', 'off', true)
