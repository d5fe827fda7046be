-- lease: one lease row as it stands and whether it may be taken.
-- Locks: the row. Index: the primary key.
SELECT owner IS NULL OR expires_at < UTC_TIMESTAMP(6), slot_lo, slot_hi, epoch, low, nudge, instance, draining, @@server_id, owner IS NOT NULL
FROM {{lease}}
WHERE shard = ?1
FOR UPDATE
