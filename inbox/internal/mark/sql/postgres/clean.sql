-- clean: the oldest marks beyond the retention, a bounded number.
-- Locks: the rows it deletes; skips those that another cleaner has.
-- Index: {{prefix}}_marked_at.
DELETE FROM {{table}}
WHERE ctid = ANY (ARRAY(
  SELECT ctid
  FROM {{table}}
  WHERE marked_at < pg_catalog.now() - $1::bigint * interval '1 microsecond'
  ORDER BY marked_at
  LIMIT $2::bigint
  FOR UPDATE SKIP LOCKED
));
