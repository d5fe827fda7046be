-- relays: the relay processes that were seen lately.
-- Locks: none.
SELECT instance, version, seen_at, seen_at + ttl >= pg_catalog.clock_timestamp(), note::text FROM {{relay}}
ORDER BY instance
