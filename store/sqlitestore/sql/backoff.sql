-- backoff: messages that have failed and are not available as of ?1, at most ?2, the
-- oldest first: the head of a key must not stay behind its followers.
-- Index: {{prefix}}_held.
SELECT sequence
FROM {{table}} INDEXED BY "{{prefix}}_held"
WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL AND attempts > 0 AND available_at > ?1
ORDER BY sequence
LIMIT ?2
