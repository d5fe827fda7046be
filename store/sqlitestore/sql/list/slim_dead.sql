-- slim_dead: slim_all, among the dead and discarded messages.
-- Index: {{prefix}}_dead; the history by its primary key.
SELECT m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key, m.created_at, COALESCE(m.published_at, 0),
  COALESCE(m.dead_at, 0), COALESCE(m.dead_reason, ''), COALESCE(m.last_error, ''), CASE WHEN ?4 THEN {{last_route}} ELSE '' END
FROM {{table}} m INDEXED BY "{{prefix}}_dead"
WHERE m.sequence > ?1 AND m.sequence < ?2 AND m.dead_at IS NOT NULL
ORDER BY m.sequence {{order}}
LIMIT ?3
