-- fence: does this owner still hold the lease? Every write begins with it, after
-- BEGIN IMMEDIATE: nobody can take the lease over before the transaction ends.
-- Invariant: owner and epoch decide, not expiry.
SELECT count(*)
FROM {{lease}}
WHERE shard = 0 AND owner = ?1 AND epoch = ?2
