-- forget_relays: drops processes that have been silent for an hour as of ?1.
DELETE FROM {{relay}}
WHERE seen_at + max(ttl, 3600000000) < ?1
