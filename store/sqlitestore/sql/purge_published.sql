-- purge_published: deletes messages published before ?1, at most ?2.
-- Index: {{prefix}}_published.
-- Invariant: the predicate is repeated on the row that is deleted.
DELETE FROM {{table}}
WHERE published_at < ?1
  AND sequence IN (
    SELECT sequence FROM {{table}} WHERE published_at < ?1 ORDER BY published_at LIMIT ?2
  )
