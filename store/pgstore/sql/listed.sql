-- listed: messages by sequence without their payloads.
-- Locks: none. Index: primary key.
SELECT {{listed}}
FROM {{table}} m
WHERE sequence = ANY($1::bigint[])
ORDER BY sequence
