-- expired_published: what purge_published would delete, for the archive.
-- Index: {{prefix}}_published.
SELECT {{columns}}
FROM {{table}} m
WHERE m.published_at < ?1
ORDER BY m.published_at
LIMIT ?2
