-- step_delete_mixed: as step_delete_any, with failures and deferrals, other generations,
-- started batches and beats. What the columns cannot say (dead, replays, routes) is in
-- the state table.
-- Locks: the lease row, then batches, then messages and states. Index: primary keys.
-- Invariant: runs in a transaction that has locked the lease in an earlier statement.
-- The state table is another row than the one a concurrent replay makes this
-- statement wait for, so its snapshot must be younger than the lock.
WITH f AS MATERIALIZED (
  SELECT 1 FROM {{lease}}
  WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.pg_postmaster_start_time() = $4
    AND pg_catalog.set_config('lock_timeout', $5, true) IS NOT NULL
  FOR NO KEY UPDATE
), u AS (
  DELETE FROM {{messages}} t
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
), s AS (
  UPDATE {{batch}} SET in_flight = true, lost = false, beat = NULL, recorded_at = pg_catalog.clock_timestamp(),
      server = pg_catalog.pg_postmaster_start_time()
  WHERE shard = $1 AND epoch = $3 AND no = ANY($13::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), b AS (
  UPDATE {{batch}} SET beat = pg_catalog.clock_timestamp()
  WHERE shard = $1 AND epoch = $3 AND no = ANY($14::bigint[]) AND (SELECT pg_catalog.count(*) FROM f) = 1
), o AS MATERIALIZED (
  SELECT o.*, s.dead_at, COALESCE(s.replays, 0) AS now_replays FROM unnest($15::bigint[], $16::smallint[], $17::smallint[], $18::integer[], $19::integer[], $20::bigint[],
      $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[], $26::uuid[])
    AS o(sequence, kind, replays, attempts, spent, delay, reason, error, route, took, routes_done, id)
    LEFT JOIN {{state}} s ON s.sequence = o.sequence
), e AS (
  DELETE FROM {{messages}} t
  USING o
  WHERE t.id = o.id AND t.id = ANY($26::uuid[])
    AND t.published_at IS NULL AND o.dead_at IS NULL AND o.now_replays = o.replays AND (SELECT pg_catalog.count(*) FROM f) = 1
    AND o.kind = 0
), r AS (
  UPDATE {{messages}} t
  SET published_at = CASE WHEN o.kind = 0 THEN pg_catalog.clock_timestamp() END,
      attempts = t.attempts + o.spent,
      locked_at = NULL,
      last_error = CASE WHEN o.kind = 0 THEN NULL ELSE COALESCE(NULLIF(o.error, ''), t.last_error) END,
      available_at = CASE WHEN o.kind IN (0, 2) THEN LEAST(t.available_at, t.created_at)
        ELSE GREATEST(pg_catalog.clock_timestamp() + o.delay * interval '1 microsecond', t.created_at + interval '1 microsecond') END
  FROM o
  WHERE t.id = o.id AND t.id = ANY($26::uuid[])
    AND t.published_at IS NULL AND o.dead_at IS NULL AND o.now_replays = o.replays AND (SELECT pg_catalog.count(*) FROM f) = 1
    AND (o.kind = 0 OR t.attempts = o.attempts)
    AND o.kind <> 0
  RETURNING t.sequence, o.kind, t.attempts, o.route, o.error, o.took, o.reason, o.routes_done
), w AS (
  INSERT INTO {{state}} (sequence, dead_at, dead_reason, routes_done)
  SELECT sequence, CASE WHEN kind = 2 THEN pg_catalog.clock_timestamp() END, CASE WHEN kind = 2 THEN reason END,
    CASE WHEN routes_done IS NOT NULL THEN ARRAY(SELECT pg_catalog.json_array_elements_text(routes_done::json)) END
  FROM r WHERE kind = 2 OR routes_done IS NOT NULL
  ON CONFLICT (sequence) DO UPDATE
  SET dead_at = EXCLUDED.dead_at, dead_reason = EXCLUDED.dead_reason,
      routes_done = COALESCE(EXCLUDED.routes_done, {{state}}.routes_done)
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
