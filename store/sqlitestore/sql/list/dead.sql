-- dead: all, among the dead and discarded messages.
-- Index: {{prefix}}_dead.
SELECT m.sequence, m.topic, (?4 = '' OR m.tenant_id = ?4) AND (?5 = '' OR m.msg_key = ?5)
    AND substr(m.topic, 1, length(?6)) = ?6 AND (?7 = '' OR {{status}} = ?7)
FROM {{table}} m INDEXED BY "{{prefix}}_dead"
WHERE m.sequence > ?2 AND m.sequence < ?3 AND m.dead_at IS NOT NULL
ORDER BY m.sequence {{order}}
LIMIT ?8
