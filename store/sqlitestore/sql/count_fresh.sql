-- count_fresh: open messages that were never put back, at most ?1, and when the oldest
-- of them was created.
-- Index: the primary key above low: below it only due and dead find anything.
SELECT count(*), COALESCE(min(created_at), 0)
FROM (
  SELECT created_at
  FROM {{table}}
  WHERE sequence > (SELECT low FROM {{lease}} WHERE shard = 0)
    AND published_at IS NULL AND dead_at IS NULL AND available_at <= created_at
  ORDER BY sequence
  LIMIT ?1
)
