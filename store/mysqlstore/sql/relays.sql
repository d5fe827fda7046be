-- relays: the relay processes that have been seen lately.
SELECT instance, version, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, seen_at),
  seen_at + INTERVAL ttl MICROSECOND >= UTC_TIMESTAMP(6), note
FROM {{relay}}
ORDER BY instance
