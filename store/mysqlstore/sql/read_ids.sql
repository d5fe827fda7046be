-- read_ids: open messages by sequence, due or not.
-- Index: the primary key.
SELECT 2, {{record}}, m.payload
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1) AND m.published_at IS NULL AND m.dead_at IS NULL AND m.slot BETWEEN ?2 AND ?3
