-- discard: gives messages (?1, JSON) up. replays changes, so that no outcome of what is
-- in flight brings one back.
UPDATE {{table}}
SET replays = replays + 1, dead_at = ?2, dead_reason = 'discarded'
WHERE sequence IN (SELECT value FROM json_each(?1))
  AND published_at IS NULL AND COALESCE(dead_reason, '') <> 'discarded'
