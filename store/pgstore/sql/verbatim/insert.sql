-- insert: one message on the verbatim layout. An empty tenant is the nil UUID.
-- Locks: the new row only.
INSERT INTO {{messages}} (event_id, topic, tenant_id, payload, available_at{{trace_columns}})
VALUES ($1, $2, COALESCE(NULLIF($3::text, ''), '00000000-0000-0000-0000-000000000000')::uuid, $4,
  COALESCE($5::timestamptz, pg_catalog.now()){{trace_values}})
RETURNING sequence
