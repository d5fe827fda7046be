-- backoff: messages that have failed and are not available yet, the next first: nothing
-- on this layout has a key.
-- Locks: none. Index: the pending index.
SELECT event_id FROM {{table}}
WHERE {{live}} AND available_at > pg_catalog.now() AND attempts > 0
ORDER BY available_at, sequence LIMIT $1
