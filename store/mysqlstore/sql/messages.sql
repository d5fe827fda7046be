-- messages: messages by sequence with their payloads, whatever their state.
-- Index: the primary key.
SELECT 0, {{record}}, m.payload, {{state}}
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1)
