-- read_due: what was scheduled or put back and is available now, after a cursor.
-- Index: {{prefix}}_due; its entries end in the sequence, so it is in order.
SELECT {{columns}}
FROM {{table}} m INDEXED BY "{{prefix}}_due"
WHERE m.available_at > m.created_at AND m.published_at IS NULL AND m.dead_at IS NULL
  AND m.available_at <= ?1 AND (m.available_at, m.sequence) > (?2, ?3)
ORDER BY m.available_at, m.sequence
LIMIT ?4
