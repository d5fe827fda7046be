-- flight: the batch that a message (?1, available at ?2) is in flight with.
SELECT b.instance, b.recorded_at
FROM {{batch}} b
WHERE ?2 <= b.recorded_at
  AND EXISTS (SELECT 1 FROM json_each(b.ids) r WHERE ?1 BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]'))
ORDER BY b.recorded_at DESC
LIMIT 1
