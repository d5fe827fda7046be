-- read_due: what was scheduled or put back and is available now, after a cursor.
-- Index: {{prefix}}_due, in its order.
SELECT 3, {{record}}, m.payload
FROM {{table}} m FORCE INDEX (`{{prefix}}_due`)
WHERE m.held = 1 AND m.available_at >= ?1 AND m.available_at <= UTC_TIMESTAMP(6)
  AND (m.available_at > ?1 OR m.sequence > ?2) AND m.slot BETWEEN ?3 AND ?4
ORDER BY m.held, m.available_at, m.sequence
LIMIT ?5
