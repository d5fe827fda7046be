-- backoff: messages that have failed and are not available yet, the oldest first: the
-- head of a key must not stay behind its followers.
-- Locks: none. Index: {{prefix}}_due.
SELECT event_id FROM {{table}}
WHERE available_at > created_at AND available_at > pg_catalog.now() AND attempts > 0 AND {{live}}
ORDER BY sequence + 0 LIMIT $1
