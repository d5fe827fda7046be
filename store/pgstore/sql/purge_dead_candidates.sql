-- purge_dead_candidates: messages that have been dead for long.
-- Locks: none. Index: {{prefix}}_dead.
SELECT {{shown}}
FROM {{table}} m
WHERE dead_at IS NOT NULL AND published_at IS NULL AND dead_at < pg_catalog.now() - $1::bigint * interval '1 microsecond'
ORDER BY sequence LIMIT $2
