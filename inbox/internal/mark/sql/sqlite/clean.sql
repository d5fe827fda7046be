-- clean: the oldest marks beyond the retention, a bounded number.
-- Locks: the file, for one short statement.
-- Index: {{prefix}}_marked_at.
DELETE FROM {{table}}
WHERE (consumer, event_id) IN (
  SELECT consumer, event_id
  FROM {{table}}
  WHERE marked_at < {{clock}} - ?1
  ORDER BY marked_at
  LIMIT ?2
);
