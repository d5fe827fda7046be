-- lagging: how many replayed messages up to a sequence are due and not delivered, at
-- most ?2. None while nobody relays the table: nobody lags. Whoever crashed still counts.
-- Index: {{prefix}}_due.
SELECT COUNT(*) FROM (
  SELECT m.sequence FROM {{table}} m FORCE INDEX (`{{prefix}}_due`)
  WHERE m.held = 1 AND m.available_at <= UTC_TIMESTAMP(6) AND m.replays > 0 AND m.sequence <= ?1 AND EXISTS (SELECT 1 FROM {{lease}} l WHERE l.owner IS NOT NULL)
  LIMIT ?2
) s
