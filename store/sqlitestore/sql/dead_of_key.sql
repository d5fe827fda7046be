-- dead_of_key: the dead messages of a key, at most ?2.
-- Index: {{prefix}}_dead.
SELECT sequence
FROM {{table}} INDEXED BY "{{prefix}}_dead"
WHERE dead_at IS NOT NULL AND published_at IS NULL AND msg_key = ?1 AND COALESCE(dead_reason, '') <> 'discarded'
ORDER BY sequence
LIMIT ?2
