-- insert_many_unique: insert_many for messages of which some have an event id that
-- the caller gave. Ids that exist already come back from duplicates.sql.
-- Locks: the new rows; waits for running transactions that inserted the same ids.
-- Invariant: one id that exists with other content keeps all of them out, so that
-- a conflict writes nothing. (One that a concurrent transaction commits while this
-- statement waits is found by duplicates.sql, after the others were inserted.)
WITH m AS MATERIALIZED (
  SELECT id, topic, msg_key, tenant, payload, available_at, headers, content_type, aggregate_type, aggregate_id,
    event_type, event_version, traceparent, tracestate
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::{{payload}}[], $6::timestamptz[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::integer[], $13::text[], $14::text[])
    AS m(id, topic, msg_key, tenant, payload, available_at, headers, content_type, aggregate_type, aggregate_id,
      event_type, event_version, traceparent, tracestate)
), conflict AS MATERIALIZED (
  SELECT 1 FROM {{table}} t JOIN m ON m.id = t.event_id
  WHERE t.event_id = ANY($1::uuid[])
    AND (t.topic, t.msg_key, {{tenant_of_t}}, t.payload{{comparable}}) IS DISTINCT FROM (m.topic, m.msg_key, m.tenant, m.payload{{comparable}})
  LIMIT 1
)
INSERT INTO {{table}} (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type,
  aggregate_type, aggregate_id, event_type, event_version, traceparent, tracestate)
SELECT id, topic, msg_key, {{tenant_element}}, payload, COALESCE(available_at, pg_catalog.now()), NULLIF(headers, '')::json,
  NULLIF(content_type, ''), NULLIF(aggregate_type, ''), NULLIF(aggregate_id, ''), NULLIF(event_type, ''),
  NULLIF(event_version, 0), NULLIF(traceparent, ''), NULLIF(tracestate, '')
FROM m
WHERE (SELECT pg_catalog.count(*) FROM conflict) = 0
ON CONFLICT (event_id) DO NOTHING
RETURNING sequence, event_id
