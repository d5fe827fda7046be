-- read_fresh: unpublished messages in sequence order, due or not.
-- Index: the primary key.
SELECT {{columns}}
FROM {{table}} m
WHERE m.sequence > ?1 AND m.sequence <= ?2 AND m.published_at IS NULL AND m.dead_at IS NULL
ORDER BY m.sequence
LIMIT ?3
