-- read_all: every part of a read in one snapshot; parts 0, 6 and 7 as in read_fresh.
-- Parts that were not asked for have a zero limit or an empty range.
-- Locks: none. Index: the pending index; whole, where messages are known by sequence.
-- Invariant: sequence + 0. As an index condition the list would scan the index once
-- for each element.
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
UNION ALL
(SELECT 2::smallint, {{columns}}, id
 FROM {{pending}}
 WHERE pg_catalog.cardinality($16::bigint[]) > 0 AND sequence BETWEEN $17 AND $18 AND sequence + 0 = ANY($16::bigint[]) AND {{mine}})
UNION ALL
(SELECT 3::smallint, {{columns}}, id
 FROM (
   SELECT * FROM {{pending}}
   WHERE available_at > created_at AND available_at <= pg_catalog.now() AND (available_at, sequence) > ($20::timestamptz, $21::bigint)
     AND {{mine}}
   ORDER BY available_at, sequence LIMIT (SELECT $19::bigint)
 ) AS turn
 ORDER BY available_at, sequence LIMIT $19)
UNION ALL
(SELECT 4::smallint, {{columns}}, id
 FROM {{pending}}
 WHERE sequence > $22 AND sequence <= $23 AND CASE WHEN $25::boolean OR topic = ANY($26::text[]) THEN true ELSE false END AND {{mine}}
 ORDER BY sequence LIMIT $24)
UNION ALL
(SELECT 5::smallint, sequence, NULL, '', topic, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0,
   NULL, NULL, NULL, NULL, NULL
 FROM {{pending}}
 WHERE $28::bigint > $27::bigint AND sequence > $27 AND sequence <= $28 AND (available_at, sequence) <= ($1::timestamptz, $5::bigint)
   AND CASE WHEN available_at > created_at THEN false ELSE true END AND {{mine}}
 ORDER BY sequence)
