-- tenants_fresh: open messages that were never put back by tenant, at most ?1: how many
-- were looked at, wait and are dead, and how old the oldest that is due is, as of ?2.
-- Index: the primary key above low: below it only due and dead find anything.
SELECT tenant_id, count(*), count(*), 0, ?2 - min(created_at)
FROM (
  SELECT tenant_id, created_at
  FROM {{table}}
  WHERE sequence > (SELECT low FROM {{lease}} WHERE shard = 0)
    AND published_at IS NULL AND dead_at IS NULL AND available_at <= created_at
  ORDER BY sequence
  LIMIT ?1
)
GROUP BY tenant_id
