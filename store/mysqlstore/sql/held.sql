-- held: does this owner hold the lease, for reads that write nothing?
SELECT COUNT(*)
FROM {{lease}}
WHERE shard = ?1 AND owner = ?2 AND epoch = ?3
