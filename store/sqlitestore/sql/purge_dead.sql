-- purge_dead: deletes messages that have been dead since before ?1, at most ?2.
-- Index: {{prefix}}_dead. A message that was published after all is not dead.
-- Invariant: the predicate is repeated on the row that is deleted.
DELETE FROM {{table}}
WHERE dead_at < ?1 AND published_at IS NULL
  AND sequence IN (
    SELECT sequence FROM {{table}} INDEXED BY "{{prefix}}_dead"
    WHERE dead_at IS NOT NULL AND dead_at < ?1 AND published_at IS NULL
    LIMIT ?2
  )
