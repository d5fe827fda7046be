-- live_relays: how many relay processes are alive as of ?1.
SELECT count(*)
FROM {{relay}}
WHERE seen_at + ttl >= ?1
