-- held: all, among the open messages that were scheduled or put back.
-- Index: {{prefix}}_held.
SELECT m.sequence, {{fits}}
FROM {{table}} m INDEXED BY "{{prefix}}_held"
WHERE m.sequence > ?2 AND m.sequence < ?3
  AND m.available_at > m.created_at AND m.published_at IS NULL AND m.dead_at IS NULL
ORDER BY m.sequence {{order}}
LIMIT ?8
