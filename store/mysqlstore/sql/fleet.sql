-- fleet: how many shards there are, and how many relay processes are alive.
SELECT (SELECT COUNT(*) FROM {{lease}}),
  (SELECT COUNT(*) FROM {{relay}} WHERE seen_at + INTERVAL ttl MICROSECOND >= UTC_TIMESTAMP(6))
