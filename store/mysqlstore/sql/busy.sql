-- busy: a lease that is free or has expired, but somebody has it locked at the moment.
SELECT shard
FROM {{lease}}
WHERE owner IS NULL OR expires_at < UTC_TIMESTAMP(6)
ORDER BY shard
LIMIT 1
