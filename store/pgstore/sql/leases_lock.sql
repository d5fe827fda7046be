-- leases_lock: lock every lease, for a change that no relay may race with.
-- Locks: all lease rows, in shard order.
SELECT shard, epoch, low, nudge, draining, owner IS NOT NULL AND expires_at >= pg_catalog.clock_timestamp() AS held
FROM {{lease}}
ORDER BY shard
FOR UPDATE
