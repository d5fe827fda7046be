-- lagging: how many replayed messages up to a sequence are due and not delivered, at
-- most $2. None while nobody relays the table: nobody lags. Whoever crashed still counts.
-- Locks: none. Index: {{prefix}}_due.
SELECT pg_catalog.count(*) FROM (
  SELECT 1 FROM {{table}}
  WHERE available_at > created_at AND available_at <= pg_catalog.clock_timestamp() AND pg_catalog.num_nonnulls(published_at, dead_at) < 1
    AND replays > 0 AND sequence <= $1 AND EXISTS (SELECT 1 FROM {{lease}} WHERE owner IS NOT NULL)
  LIMIT $2
) s
