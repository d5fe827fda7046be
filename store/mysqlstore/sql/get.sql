-- get: one message with its payload.
-- Index: {{prefix}}_event_id.
SELECT 0, {{record}}, m.payload, {{state}}
FROM {{table}} m
WHERE m.event_id = ?1
