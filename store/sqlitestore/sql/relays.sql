-- relays: the relay processes that have been seen lately.
SELECT instance, version, seen_at, seen_at + ttl >= ?1, note
FROM {{relay}}
ORDER BY instance
