-- read_fresh: what is available, in the order in which it became so, fresh or put back.
-- Part 0 goes on where the last read ended; part 6 goes again through what that has
-- passed, for what committed late, without the messages in flight ($14); part 7 is
-- what becomes available next, so that the relay knows when to look. The first row is
-- the clock, the snapshot and whether the lease is held.
-- Locks: none. Index: the pending index, in order: sequence has none of its own.
-- Invariant: nothing beyond now() is passed, or what comes next would be behind. The
-- inner limit is unknown to the planner, which then goes by the index whatever it knows
-- of the table: it would sort a backlog that it takes for small. The outer one keeps
-- the estimate low, and with it the compiler out.
SELECT (-1)::smallint AS part, pg_catalog.pg_snapshot_xmin(s)::text::bigint AS sequence, NULL::uuid AS event_id,
  pg_catalog.pg_snapshot_xmax(s)::text AS tenant_id, '' AS topic, '' AS msg_key,
  NULL AS payload, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS event_type, NULL AS content_type, NULL::json AS headers,
  NULL AS traceparent, NULL AS tracestate, NULL AS last_error, NULL::integer AS event_version, 0 AS attempts,
  0::smallint AS crashes, 0::smallint AS replays, pg_catalog.now() AS created_at, pg_catalog.now() AS available_at,
  NULL::text[] AS routes_done,
  EXISTS (SELECT 1 FROM {{lease}} WHERE shard = $6 AND owner = $7 AND epoch = $8) AS due, NULL::uuid AS id
FROM pg_catalog.pg_current_snapshot() s
UNION ALL
(SELECT 0::smallint, {{columns}}, id
 FROM (
   SELECT * FROM {{pending}}
   WHERE (available_at, sequence) > ($1::timestamptz, $5::bigint) AND available_at <= pg_catalog.now() AND {{mine}}
   ORDER BY available_at, sequence LIMIT (SELECT $2::bigint)
 ) AS turn
 ORDER BY available_at, sequence LIMIT $2)
UNION ALL
(SELECT 6::smallint, {{columns}}, id
 FROM (
   SELECT * FROM {{pending}}
   WHERE (available_at, sequence) > ($9::timestamptz, $10::bigint) AND (available_at, sequence) <= ($11::timestamptz, $12::bigint)
     AND available_at <= pg_catalog.now() AND CASE WHEN sequence = ANY($14::bigint[]) THEN false ELSE true END AND {{mine}}
   ORDER BY available_at, sequence LIMIT (SELECT $13::bigint)
 ) AS turn
 ORDER BY available_at, sequence LIMIT $13)
UNION ALL
(SELECT 7::smallint, {{next}}, id
 FROM (
   SELECT * FROM {{pending}}
   WHERE available_at > pg_catalog.now() AND {{mine}}
   ORDER BY available_at, sequence LIMIT (SELECT $15::bigint)
 ) AS turn
 ORDER BY available_at, sequence LIMIT $15)
