-- read_all: every part of a read in one snapshot; the first row is the clock, the
-- snapshot and whether the lease is held. Parts that were not asked for have a zero
-- limit or an empty range.
-- Locks: none. Index: primary key; {{prefix}}_due for part 3.
-- Invariant: one statement. If gaps were probed later than fresh messages were
-- read, a message could overtake one that committed before it began. The runs of part 2
-- stand in subqueries: a planner that saw how many they are would compile the statement.
SELECT (-1)::smallint AS part, pg_catalog.pg_snapshot_xmin(s)::text::bigint AS sequence, NULL::uuid AS event_id,
  pg_catalog.pg_snapshot_xmax(s)::text AS tenant_id, '' AS topic, '' AS msg_key,
  NULL AS payload, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS event_type, NULL AS content_type, NULL::json AS headers,
  NULL AS traceparent, NULL AS tracestate, NULL AS last_error, NULL::integer AS event_version, 0 AS attempts,
  0::smallint AS crashes, 0::smallint AS replays, pg_catalog.now() AS created_at, pg_catalog.now() AS available_at,
  NULL::text[] AS routes_done,
  EXISTS (SELECT 1 FROM {{lease}} WHERE shard = $6 AND owner = $7 AND epoch = $8) AS due
FROM pg_catalog.pg_current_snapshot() s
UNION ALL
(SELECT {{fresh}}
 FROM {{table}}
 WHERE sequence > $1 AND CASE WHEN $5::boolean THEN true ELSE {{mine}} END
 ORDER BY sequence LIMIT $2)
UNION ALL
(SELECT 2::smallint, {{columns}}
 FROM unnest((SELECT $9::bigint[]), (SELECT $20::bigint[])) AS run(lo, hi)
 CROSS JOIN LATERAL (SELECT * FROM {{table}} WHERE sequence BETWEEN lo AND hi AND {{mine}} ORDER BY sequence LIMIT hi - lo + 1) AS missing)
UNION ALL
(SELECT 3::smallint, {{columns}}
 FROM {{table}}
 WHERE available_at > created_at AND available_at <= pg_catalog.now() AND (available_at, sequence) > ($11::timestamptz, $12::bigint)
   AND {{mine}}
 ORDER BY available_at, sequence LIMIT $10)
UNION ALL
(SELECT 4::smallint, {{columns}}
 FROM {{table}}
 WHERE sequence > $13 AND sequence <= $14
   AND CASE WHEN msg_key = ANY($16::text[]) OR topic = ANY($17::text[]) OR pg_catalog.cardinality($16::text[]) + pg_catalog.cardinality($17::text[]) = 0
     THEN {{mine}} ELSE false END
 ORDER BY sequence LIMIT $15)
UNION ALL
(SELECT 5::smallint, sequence, NULL, '', topic, msg_key, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0,
   NULL, NULL, NULL, NULL
 FROM {{table}}
 WHERE sequence > $18 AND sequence <= $19 AND CASE WHEN available_at > created_at THEN false ELSE {{mine}} END
 ORDER BY sequence)
