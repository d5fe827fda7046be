-- count_in_flight: messages in batches, at most ?1, and how many of them have failed
-- before.
-- Index: the primary key, once per run.
SELECT count(*), COALESCE(sum(attempts > 0), 0)
FROM (
  SELECT m.attempts
  FROM {{batch}} b
  CROSS JOIN json_each(b.ids) r
  CROSS JOIN {{table}} m ON m.sequence BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
  WHERE m.published_at IS NULL AND m.dead_at IS NULL AND m.available_at <= b.recorded_at
  LIMIT ?1
)
