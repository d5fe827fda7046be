-- read_seen: every sequence of the fresh part and whether it is still open.
-- Index: the primary key.
SELECT sequence, published_at IS NULL AND dead_at IS NULL
FROM {{table}}
WHERE sequence > ?1
ORDER BY sequence
LIMIT ?2
