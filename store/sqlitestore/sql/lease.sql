-- lease: the lease as it stands, read under the write lock before it is taken.
SELECT COALESCE(owner, ''), epoch, COALESCE(expires_at, 0), draining, nudge, low, slot_lo, slot_hi
FROM {{lease}}
WHERE shard = 0
