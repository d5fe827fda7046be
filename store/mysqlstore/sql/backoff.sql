-- backoff: messages that have failed and are not available yet, at most ?1, the oldest
-- first: the head of a key must not stay behind its followers.
-- Index: {{prefix}}_held.
SELECT m.sequence
FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
WHERE m.held = 1 AND m.attempts > 0 AND m.available_at > UTC_TIMESTAMP(6)
ORDER BY m.held, m.sequence
LIMIT ?1
