-- ahead: the first message of a key below a sequence that was scheduled or put back, or
-- is dead (if ?3).
-- Index: {{prefix}}_held, once for each, in its order.
SELECT h.sequence
FROM (
  (SELECT m.sequence
   FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
   WHERE m.held = 1 AND m.sequence < ?2 AND CAST(m.msg_key AS BINARY) = ?1
   ORDER BY m.held, m.sequence
   LIMIT 1)
  UNION ALL
  (SELECT m.sequence
   FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
   WHERE ?3 AND m.held = 2 AND m.sequence < ?2 AND CAST(m.msg_key AS BINARY) = ?1
     AND COALESCE(m.dead_reason, '') <> 'discarded'
   ORDER BY m.held, m.sequence
   LIMIT 1)
) h
ORDER BY h.sequence
LIMIT 1
