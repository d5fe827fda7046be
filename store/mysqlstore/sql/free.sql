-- free: a lease that is free or has expired and that nobody is writing under.
-- Locks: that lease row. Whoever holds others is not waited for.
-- Invariant: nothing else is read here; Recover and Read come in later transactions.
SELECT shard
FROM {{lease}} FORCE INDEX (PRIMARY)
WHERE owner IS NULL OR expires_at < UTC_TIMESTAMP(6)
ORDER BY shard
LIMIT 1
FOR UPDATE SKIP LOCKED
