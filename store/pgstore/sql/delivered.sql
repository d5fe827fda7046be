-- delivered: the highest published sequence of some keys, among the $2 messages above $1.
-- Locks: none. Index: primary key.
SELECT msg_key, pg_catalog.max(sequence)
FROM (SELECT msg_key, sequence, published_at FROM {{table}} WHERE sequence > $1 ORDER BY sequence LIMIT $2) AS behind
WHERE published_at IS NOT NULL AND msg_key = ANY($3::text[])
GROUP BY msg_key
