-- restored: whether any lease was last taken on another database.
-- Locks: none.
SELECT EXISTS (
  SELECT 1 FROM {{lease}} WHERE system_id <> $1 OR timeline > $2
)
