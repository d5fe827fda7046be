-- insert: one message whose event id was made here and cannot collide.
-- Locks: the new row only.
-- Invariant: available_at equals created_at unless the message is scheduled, so
-- both come from the same now().
INSERT INTO {{table}} (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type,
  aggregate_type, aggregate_id, event_type, event_version, traceparent, tracestate)
VALUES ($1, $2, $3, {{tenant_value}}, $5, COALESCE($6::timestamptz, pg_catalog.now()), NULLIF($7, '')::json, NULLIF($8, ''),
  NULLIF($9, ''), NULLIF($10, ''), NULLIF($11, ''), NULLIF($12::integer, 0), NULLIF($13, ''), NULLIF($14, ''))
RETURNING sequence
