-- summaries: messages by sequence without their payloads.
-- Index: the primary key.
SELECT 0, {{record}}, NULL, {{state}}
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1)
