-- read_fresh: messages above a sequence, in order; the first row is the clock and
-- whether the lease is held, as a courtesy: what counts is the fence of a write.
-- Locks: none. Index: primary key, in order.
-- Invariant: num_nonnulls inside one CASE, never IS NULL or BETWEEN: the planner takes
-- those for rare on a table it has no statistics of, and would read and sort the tail.
SELECT (-1)::smallint AS part, 0::bigint AS sequence, NULL::uuid AS event_id, '' AS tenant_id, '' AS topic, '' AS msg_key,
  NULL AS payload, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS event_type, NULL AS content_type, NULL::json AS headers,
  NULL AS traceparent, NULL AS tracestate, NULL AS last_error, NULL::integer AS event_version, 0 AS attempts,
  0::smallint AS crashes, 0::smallint AS replays, pg_catalog.now() AS created_at, pg_catalog.now() AS available_at,
  NULL::text[] AS routes_done,
  EXISTS (SELECT 1 FROM {{lease}} WHERE shard = $6 AND owner = $7 AND epoch = $8) AS due
UNION ALL
(SELECT {{fresh}}
 FROM {{table}}
 WHERE sequence > $1 AND CASE WHEN $5::boolean THEN true ELSE {{mine}} END
 ORDER BY sequence LIMIT $2)
