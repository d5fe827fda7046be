-- finish_batches: forgets finished batches of this epoch.
DELETE FROM {{batch}}
WHERE shard = 0 AND epoch = ?1 AND no IN (SELECT value FROM json_each(?2))
