-- lagging: how many replayed messages up to a sequence are due and not delivered, at
-- most ?3. None while nobody relays the table: nobody lags. Whoever crashed still counts.
-- Index: {{prefix}}_held.
SELECT COUNT(*) FROM (
  SELECT 1 FROM {{table}} INDEXED BY "{{prefix}}_held"
  WHERE sequence <= ?1 AND available_at > created_at AND available_at <= ?2 AND published_at IS NULL AND dead_at IS NULL
    AND replays > 0 AND EXISTS (SELECT 1 FROM {{lease}} WHERE owner IS NOT NULL)
  LIMIT ?3
)
