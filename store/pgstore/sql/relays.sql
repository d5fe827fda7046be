-- relays: the relay processes that live.
-- Locks: none.
SELECT instance, version, seen_at FROM {{relay}}
WHERE seen_at + ttl >= pg_catalog.clock_timestamp()
ORDER BY instance
