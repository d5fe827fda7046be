-- insert_unique: one message whose event id the caller gave. No row comes back
-- when the id exists: then, and only then, duplicate.sql runs.
-- Locks: the new row; waits for a running transaction that inserted the same id.
-- Invariant: nothing is written on a conflict (no DO UPDATE: that would leave a
-- dead tuple and a row lock each time).
INSERT INTO {{table}} (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type,
  aggregate_type, aggregate_id, event_type, event_version, traceparent, tracestate)
VALUES ($1, $2, $3, {{tenant_value}}, $5, COALESCE($6::timestamptz, pg_catalog.now()), NULLIF($7, '')::json, NULLIF($8, ''),
  NULLIF($9, ''), NULLIF($10, ''), NULLIF($11, ''), NULLIF($12::integer, 0), NULLIF($13, ''), NULLIF($14, ''))
ON CONFLICT (event_id) DO NOTHING
RETURNING sequence
