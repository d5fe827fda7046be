-- insert_unique: insert for an event id that the caller gave.
-- Locks: the new row; waits for a running transaction that inserted the same id.
INSERT INTO {{messages}} (event_id, topic, tenant_id, payload, available_at{{trace_columns}})
VALUES ($1, $2, COALESCE(NULLIF($3::text, ''), '00000000-0000-0000-0000-000000000000')::uuid, $4,
  COALESCE($5::timestamptz, pg_catalog.now()){{trace_values}})
ON CONFLICT (event_id) DO NOTHING
RETURNING sequence
