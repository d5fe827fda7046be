-- read_on: the next page of a backlog, as read_fresh without its first row: passing every
-- row through a UNION costs a tenth of the read. The clock stands where read_fresh says
-- whether a message is due, and is NULL when the lease is lost.
-- Locks: none. Index: primary key, in order.
-- Invariant: as read_fresh.
SELECT {{on}}, (SELECT pg_catalog.now() FROM {{lease}} WHERE shard = $6 AND owner = $7 AND epoch = $8) AS clock
FROM {{table}}
WHERE sequence > $1 AND CASE WHEN $5::boolean THEN true ELSE {{mine}} END
ORDER BY sequence LIMIT $2
