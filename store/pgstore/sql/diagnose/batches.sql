-- batches: what is recorded as in flight, up to a limit.
-- Locks: none.
SELECT pg_catalog.count(*) FROM (SELECT 1 FROM {{batch}} LIMIT $1) b
