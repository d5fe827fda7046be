-- leases: the lease and how many batches there are, for an inspector.
SELECT l.shard, l.instance, l.epoch, COALESCE(l.expires_at, 0), l.owner IS NOT NULL AND l.expires_at >= ?1, l.draining,
  l.slot_lo, l.slot_hi, l.low, (SELECT count(*) FROM {{batch}} b WHERE b.shard = l.shard)
FROM {{lease}} l
ORDER BY l.shard
