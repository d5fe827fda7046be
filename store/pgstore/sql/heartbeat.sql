-- heartbeat: say that a relay lives, and count those that do. Relays that have
-- been silent for an hour are forgotten.
-- Locks: the relay's own row, and those of forgotten ones.
WITH me AS (
  INSERT INTO {{relay}} (instance, version, ttl, note)
  VALUES ($1, $2, $3::bigint * interval '1 microsecond', $4::text::json)
  ON CONFLICT (instance) DO UPDATE
  SET version = EXCLUDED.version, ttl = EXCLUDED.ttl, note = EXCLUDED.note, seen_at = pg_catalog.clock_timestamp()
), gone AS (
  DELETE FROM {{relay}}
  WHERE instance <> $1 AND seen_at + GREATEST(ttl, interval '1 hour') < pg_catalog.clock_timestamp()
)
SELECT (SELECT pg_catalog.count(*) FROM {{lease}}),
  1 + (SELECT pg_catalog.count(*) FROM {{relay}} WHERE instance <> $1 AND seen_at + ttl >= pg_catalog.clock_timestamp())
