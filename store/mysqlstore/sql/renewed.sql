-- renewed: how often operators have changed something.
SELECT nudge
FROM {{lease}}
WHERE shard = ?1
