
-- The messages themselves, and the state that their columns cannot hold. A producer
-- reads back only what a duplicate is compared with.
GRANT INSERT (event_id, topic, tenant_id, payload, available_at{{trace_columns}}) ON {{messages}} TO {{producer}};
GRANT SELECT (sequence, event_id) ON {{messages}} TO {{producer}};
GRANT SELECT (sequence, event_id, topic, msg_key, tenant_id, payload) ON {{table}} TO {{producer}};
GRANT SELECT, UPDATE (published_at, attempts, available_at, locked_at, last_error), DELETE ON {{messages}} TO {{relay_role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{state}} TO {{relay_role}};
GRANT SELECT ON {{table}} TO {{relay_role}};
GRANT SELECT, DELETE ON {{messages}}, {{state}} TO {{cleaner}};
GRANT SELECT ON {{table}} TO {{cleaner}};
GRANT SELECT ON {{messages}}, {{state}} TO {{viewer}};
GRANT SELECT, UPDATE (published_at, attempts, available_at, locked_at, last_error), DELETE ON {{messages}} TO {{operator}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{state}} TO {{operator}};
