-- silent_relays: processes that have not been seen for an hour.
SELECT instance
FROM {{relay}}
WHERE seen_at + INTERVAL GREATEST(ttl, 3600000000) MICROSECOND < UTC_TIMESTAMP(6)
