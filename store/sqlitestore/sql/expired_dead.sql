-- expired_dead: what purge_dead would delete, for the archive.
-- Index: {{prefix}}_dead.
SELECT {{columns}}
FROM {{table}} m INDEXED BY "{{prefix}}_dead"
WHERE m.dead_at IS NOT NULL AND m.dead_at < ?1 AND m.published_at IS NULL
LIMIT ?2
