-- forget_relays: drops processes that have not been seen for long.
DELETE FROM {{relay}}
WHERE seen_at < ?1
