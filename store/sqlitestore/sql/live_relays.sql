-- live_relays: how many relay processes are alive.
SELECT count(*)
FROM {{relay}}
WHERE seen_at > ?1
