-- batches: what is in flight and with whom, for people. They are few.
SELECT b.ids, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, b.recorded_at), l.instance
FROM {{batch}} b
JOIN {{lease}} l ON l.shard = b.shard
LIMIT 10000
