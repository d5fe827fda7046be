-- slim_all: messages as a job looks at them, with the route of their last attempt if ?4.
-- Index: the primary key.
SELECT m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key, m.created_at, COALESCE(m.published_at, 0),
  COALESCE(m.dead_at, 0), COALESCE(m.dead_reason, ''), COALESCE(m.last_error, ''), CASE WHEN ?4 THEN {{last_route}} ELSE '' END
FROM {{table}} m
WHERE m.sequence > ?1 AND m.sequence < ?2
ORDER BY m.sequence {{order}}
LIMIT ?3
