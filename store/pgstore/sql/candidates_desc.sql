-- candidates_desc: messages as a filter in the program looks at them, newest first, with
-- the route of their last attempt if $5.
-- Locks: none. Index: primary key, or {{prefix}}_dead (the CASE folds to its condition);
-- {{prefix}}_attempt_by_message.
SELECT m.sequence, m.event_id, {{tenant}}, m.topic, m.msg_key, m.created_at, m.published_at, m.dead_at,
  COALESCE(m.dead_reason, ''), COALESCE(m.last_error, ''), CASE WHEN $5::boolean THEN {{last_route}} ELSE '' END
FROM {{table}} m
WHERE m.sequence > $1 AND m.sequence < $2 AND CASE WHEN $4::boolean THEN m.dead_at IS NOT NULL ELSE true END
ORDER BY m.sequence DESC LIMIT $3
