-- heads: keyed messages that hold the later ones of their key: dead ones, and
-- unpublished ones that are scheduled or were put back.
-- The first row, sequence 0, says whether the lease is held.
-- Locks: none. Index: {{prefix}}_dead in order; {{prefix}}_due whole, it holds what waits.
-- Invariant: `+ 0` keeps the planner from walking the primary key through millions of
-- published messages to find the few that wait (5M retained: 12 s instead of 0.1 s).
(SELECT 0::bigint AS sequence, '' AS msg_key, '' AS topic, EXISTS (SELECT 1 FROM {{lease}} WHERE shard = $5 AND owner = $6 AND epoch = $7) AS dead)
UNION ALL
(SELECT sequence, msg_key, topic, true
 FROM {{table}}
 WHERE dead_at IS NOT NULL AND sequence > $1 AND published_at IS NULL
   AND CASE WHEN msg_key = '' OR dead_reason = 'discarded' THEN false ELSE {{slots}} END
 ORDER BY sequence LIMIT $2)
UNION ALL
(SELECT sequence, msg_key, topic, false
 FROM {{table}}
 WHERE available_at > created_at AND sequence + 0 > $1 AND pg_catalog.num_nonnulls(published_at, dead_at) < 1
   AND CASE WHEN msg_key = '' THEN false ELSE {{slots}} END
 ORDER BY sequence + 0 LIMIT $2)
ORDER BY sequence LIMIT $2 + 1
