-- insert_many: any number of messages on the verbatim layout.
-- Locks: the new rows only.
INSERT INTO {{messages}} (event_id, topic, tenant_id, payload, available_at{{trace_columns}})
SELECT id, topic, COALESCE(NULLIF(tenant, ''), '00000000-0000-0000-0000-000000000000')::uuid, payload,
  COALESCE(available_at, pg_catalog.now()){{trace_selected}}
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::{{payload}}[], $5::timestamptz[]{{trace_arrays}})
    AS m(id, topic, tenant, payload, available_at{{trace_columns}})
RETURNING sequence, event_id
