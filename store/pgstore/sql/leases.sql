-- leases: the leases as people see them.
-- Locks: none.
SELECT l.shard, COALESCE(l.instance, ''), l.epoch, l.expires_at,
  l.owner IS NOT NULL AND l.expires_at >= pg_catalog.clock_timestamp(), l.draining, l.slot_lo, l.slot_hi, l.low,
  (SELECT pg_catalog.count(*) FROM {{batch}} b WHERE b.shard = l.shard)
FROM {{lease}} l
ORDER BY l.shard
