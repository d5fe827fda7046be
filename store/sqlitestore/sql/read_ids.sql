-- read_ids: messages by sequence, due or not.
-- Index: the primary key, once per id.
SELECT {{columns}}
FROM {{table}} m
WHERE m.sequence IN (SELECT value FROM json_each(?1)) AND m.published_at IS NULL AND m.dead_at IS NULL
