-- fence: does this owner still hold the lease? Every write begins with it. Besides: the
-- time, the latest time at which a batch of the shard was recorded, and the server.
-- Locks: the lease row, until the transaction ends, so nobody takes it over meanwhile.
-- Invariant: owner and epoch decide, not expiry.
SELECT l.owner <=> ?2 AND l.epoch = ?3, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, UTC_TIMESTAMP(6)),
  COALESCE((SELECT TIMESTAMPDIFF(MICROSECOND, {{epoch}}, MAX(b.recorded_at)) FROM {{batch}} b WHERE b.shard = l.shard), 0), @@server_id
FROM {{lease}} l
WHERE l.shard = ?1
FOR UPDATE
