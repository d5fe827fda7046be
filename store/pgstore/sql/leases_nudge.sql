-- leases_nudge: tell every relay that rows change behind its back, before they do.
-- Locks: all lease rows, in shard order; relays lock leases before rows too.
UPDATE {{lease}} SET nudge = nudge + 1
WHERE shard = ANY(ARRAY(SELECT shard FROM {{lease}} ORDER BY shard FOR UPDATE))
