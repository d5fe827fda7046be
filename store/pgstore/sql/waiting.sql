-- waiting: open messages of some keys, among the first $2 rows above every lease's low
-- and what was put back below it.
-- Locks: none. Index: primary key from the lowest low; {{prefix}}_due.
WITH low AS MATERIALIZED (
  SELECT COALESCE(pg_catalog.min(low), 0) AS low FROM {{lease}}
), seen AS MATERIALIZED (
  SELECT sequence, msg_key, {{live}} AS live
  FROM {{table}} WHERE sequence > (SELECT low FROM low) ORDER BY sequence LIMIT $2
)
SELECT msg_key, sequence FROM seen WHERE live AND msg_key = ANY($1::text[])
UNION ALL
(SELECT msg_key, sequence FROM {{table}}
 WHERE available_at > created_at AND sequence + 0 <= (SELECT low FROM low) AND {{live}} AND msg_key = ANY($1::text[])
 LIMIT $2)
