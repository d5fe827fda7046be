-- leases: the leases as people see them.
SELECT l.shard, l.instance, l.epoch, COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, l.expires_at), 0),
  l.owner IS NOT NULL AND l.expires_at >= UTC_TIMESTAMP(6), l.draining, l.slot_lo, l.slot_hi, l.low,
  (SELECT COUNT(*) FROM {{batch}} b WHERE b.shard = l.shard)
FROM {{lease}} l
ORDER BY l.shard
