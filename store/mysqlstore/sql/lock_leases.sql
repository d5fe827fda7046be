-- lock_leases: all leases, for those who change them or rows behind their backs.
-- Locks: every lease row, in shard order.
SELECT shard, epoch, low, nudge, draining, owner IS NOT NULL AND expires_at >= UTC_TIMESTAMP(6)
FROM {{lease}} FORCE INDEX (PRIMARY)
ORDER BY shard
FOR UPDATE
