-- key_heads: as heads, of all shards.
-- Locks: none. Index: {{prefix}}_dead in order; {{prefix}}_due whole.
(SELECT sequence, msg_key FROM {{table}}
 WHERE dead_at IS NOT NULL AND published_at IS NULL
   AND CASE WHEN msg_key = '' THEN false ELSE dead_reason IS DISTINCT FROM 'discarded' END
 ORDER BY sequence LIMIT $1)
UNION ALL
(SELECT sequence, msg_key FROM {{table}}
 WHERE available_at > created_at AND pg_catalog.num_nonnulls(published_at, dead_at) < 1 AND msg_key <> ''
 ORDER BY sequence + 0 LIMIT $1)
ORDER BY sequence LIMIT $1
