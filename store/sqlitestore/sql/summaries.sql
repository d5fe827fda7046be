-- summaries: messages by sequence without their payloads.
-- Index: the primary key, once per id.
SELECT {{summary}}
FROM {{table}} m
WHERE m.sequence IN (SELECT value FROM json_each(?1))
