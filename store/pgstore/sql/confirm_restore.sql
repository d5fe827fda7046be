-- confirm_restore: forget the server that the leases were last taken on. Every
-- earlier owner loses its lease.
-- Locks: all lease rows.
WITH l AS (
  UPDATE {{lease}}
  SET system_id = NULL, timeline = NULL, owner = NULL, expires_at = NULL, draining = true,
      epoch = epoch + 1, nudge = nudge + 1
  RETURNING shard
)
INSERT INTO {{audit}} (table_name, actor, verb, reason)
SELECT '{{prefix}}', $1, 'confirm-restore', $2 WHERE EXISTS (SELECT 1 FROM l)
