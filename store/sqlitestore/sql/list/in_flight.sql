-- in_flight: all, among the messages of the batches.
-- Index: the primary key, once per run; what is found is sorted.
SELECT m.sequence, {{fits}}
FROM {{batch}} b
CROSS JOIN json_each(b.ids) r
CROSS JOIN {{table}} m ON m.sequence BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
WHERE m.sequence > ?2 AND m.sequence < ?3 AND m.available_at <= b.recorded_at
ORDER BY m.sequence {{order}}
LIMIT ?8
