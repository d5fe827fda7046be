-- members: the messages of a batch that are still in flight with it: not settled, and
-- not put back since it was recorded.
-- Index: the primary key, once per run. CROSS JOIN keeps the runs outside.
SELECT m.sequence
FROM json_each(?1) r
CROSS JOIN {{table}} m ON m.sequence BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
WHERE m.published_at IS NULL AND m.dead_at IS NULL AND m.available_at <= ?2
ORDER BY m.sequence
