-- tenants_fresh: the first ?1 rows above the lowest low by tenant: how many were looked
-- at, wait and are dead, and how old the oldest that waits is. Only those count that were
-- never put back; below low, only held finds anything.
-- Index: the primary key.
SELECT s.tenant_id, COUNT(*), SUM(s.fresh), 0,
  COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN s.fresh THEN s.created_at END), UTC_TIMESTAMP(6)), 0)
FROM (
  SELECT m.tenant_id, {{open}} AND m.available_at <= m.created_at AS fresh, m.created_at
  FROM {{table}} m FORCE INDEX (PRIMARY)
  WHERE m.sequence > (SELECT COALESCE(MIN(l.low), 0) FROM {{lease}} l)
  ORDER BY m.sequence
  LIMIT ?1
) s
GROUP BY s.tenant_id
