-- read_fresh: open messages of some slots in sequence order, due or not.
-- Index: the primary key.
SELECT 0, {{record}}, m.payload
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1 AND m.published_at IS NULL AND m.dead_at IS NULL AND m.slot BETWEEN ?2 AND ?3
ORDER BY m.sequence
LIMIT ?4
