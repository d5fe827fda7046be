
-- The messages themselves. A producer reads back only what a duplicate is compared with.
GRANT INSERT (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type, aggregate_type,
  aggregate_id, event_type, event_version, traceparent, tracestate) ON {{table}} TO {{producer}};
GRANT SELECT (sequence, event_id, topic, msg_key, tenant_id, payload) ON {{table}} TO {{producer}};
GRANT SELECT, UPDATE, DELETE ON {{table}} TO {{relay_role}};
GRANT SELECT, DELETE ON {{table}} TO {{cleaner}};
GRANT UPDATE (replays, attempts, crashes, dead_at, dead_reason, published_at, last_error, routes_done, available_at)
  ON {{table}} TO {{operator}};
GRANT DELETE ON {{table}} TO {{operator}};
