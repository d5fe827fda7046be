-- heads: the keyed messages that can hold their key, in sequence order. held is 1 for
-- what was scheduled or put back and 2 for what is dead.
-- Index: {{prefix}}_held, once for each, in its order.
SELECT h.sequence, h.msg_key, h.topic, h.held = 2
FROM (
  (SELECT m.sequence, m.msg_key, m.topic, m.held
   FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
   WHERE m.held = 1 AND m.sequence > ?1 AND LENGTH(m.msg_key) > 0 AND m.slot BETWEEN ?2 AND ?3
   ORDER BY m.held, m.sequence
   LIMIT ?4)
  UNION ALL
  (SELECT m.sequence, m.msg_key, m.topic, m.held
   FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
   WHERE m.held = 2 AND m.sequence > ?1 AND LENGTH(m.msg_key) > 0 AND m.slot BETWEEN ?2 AND ?3
     AND COALESCE(m.dead_reason, '') <> 'discarded'
   ORDER BY m.held, m.sequence
   LIMIT ?4)
) h
ORDER BY h.sequence
LIMIT ?4
