-- held: all, among the open messages that were scheduled or put back.
-- Index: {{prefix}}_held.
SELECT m.sequence, m.topic, (?4 = '' OR m.tenant_id = ?4) AND (?5 = '' OR m.msg_key = ?5)
    AND substr(m.topic, 1, length(?6)) = ?6 AND (?7 = '' OR {{status}} = ?7)
FROM {{table}} m INDEXED BY "{{prefix}}_held"
WHERE m.sequence > ?2 AND m.sequence < ?3
  AND m.available_at > m.created_at AND m.published_at IS NULL AND m.dead_at IS NULL
ORDER BY m.sequence {{order}}
LIMIT ?8
