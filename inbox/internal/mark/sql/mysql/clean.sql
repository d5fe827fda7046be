-- clean: the oldest marks beyond the retention, a bounded number.
-- Locks: the rows it deletes; under READ COMMITTED no gaps, so that nobody who marks
-- waits for it.
-- Index: {{prefix}}_marked_at.
DELETE FROM {{table}}
WHERE marked_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
ORDER BY marked_at
LIMIT ?;
