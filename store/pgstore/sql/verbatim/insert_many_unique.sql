-- insert_many_unique: insert_many with event ids that the caller gave. One id that
-- exists with other content keeps all of them out.
-- Locks: the new rows; waits for running transactions that inserted the same ids.
WITH m AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::{{payload}}[], $5::timestamptz[]{{trace_arrays}})
    AS m(id, topic, tenant, payload, available_at{{trace_columns}})
), conflict AS MATERIALIZED (
  SELECT 1 FROM {{table}} t JOIN m ON m.id = t.event_id
  WHERE t.event_id = ANY($1::uuid[])
    AND (t.topic, t.tenant_id, t.payload{{comparable}}) IS DISTINCT FROM (m.topic, m.tenant, m.payload{{comparable}})
  LIMIT 1
)
INSERT INTO {{messages}} (event_id, topic, tenant_id, payload, available_at{{trace_columns}})
SELECT id, topic, COALESCE(NULLIF(tenant, ''), '00000000-0000-0000-0000-000000000000')::uuid, payload,
  COALESCE(available_at, pg_catalog.now()){{trace_selected}}
FROM m
WHERE (SELECT pg_catalog.count(*) FROM conflict) = 0
ON CONFLICT (event_id) DO NOTHING
RETURNING sequence, event_id
