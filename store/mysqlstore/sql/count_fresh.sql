-- count_fresh: open messages that were never put back among the first ?1 rows above the
-- lowest low, when the oldest of them was created, and how many rows were looked at.
-- Below low, only held finds anything.
-- Index: the primary key.
SELECT COALESCE(SUM(s.fresh), 0), COALESCE(MIN(CASE WHEN s.fresh THEN s.created_at END), 0), COUNT(*)
FROM (
  SELECT {{open}} AND m.available_at <= m.created_at AS fresh, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, m.created_at) AS created_at
  FROM {{table}} m FORCE INDEX (PRIMARY)
  WHERE m.sequence > (SELECT COALESCE(MIN(l.low), 0) FROM {{lease}} l)
  ORDER BY m.sequence
  LIMIT ?1
) s
