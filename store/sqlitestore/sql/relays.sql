-- relays: the relay processes that have been seen.
SELECT instance, version, seen_at
FROM {{relay}}
ORDER BY instance
