-- list_asc: messages between two sequences without their payloads, in order.
-- Index: the primary key.
SELECT 0, {{record}}, NULL, {{state}}
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1 AND m.sequence < ?2
ORDER BY m.sequence ASC
LIMIT ?3
