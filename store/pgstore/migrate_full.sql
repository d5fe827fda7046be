DROP VIEW {{schema}}"{{prefix}}_audit_actions"
-- statement
DROP VIEW {{status_view}}
-- statement
DROP VIEW {{view}}
-- statement
-- Constant defaults: no row is rewritten. The slot stays an expression, because a
-- generated column would rewrite the table.
ALTER TABLE {{messages}}
  ADD COLUMN dead_at        timestamptz,
  ADD COLUMN event_version  integer,
  ADD COLUMN crashes        smallint NOT NULL DEFAULT 0,
  ADD COLUMN replays        smallint NOT NULL DEFAULT 0,
  ADD COLUMN msg_key        text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN aggregate_type text,
  ADD COLUMN aggregate_id   text,
  ADD COLUMN event_type     text,
  ADD COLUMN content_type   text,
  ADD COLUMN headers        json,
  ADD COLUMN IF NOT EXISTS traceparent text,
  ADD COLUMN IF NOT EXISTS tracestate  text,
  ADD COLUMN dead_reason    text,
  ADD COLUMN routes_done    text[],
  ALTER COLUMN event_id SET DEFAULT pg_catalog.gen_random_uuid(),
  ALTER COLUMN tenant_id SET DEFAULT '00000000-0000-0000-0000-000000000000',
  SET (fillfactor = 50)
-- statement
UPDATE {{messages}} m
SET dead_at = s.dead_at, dead_reason = s.dead_reason, crashes = s.crashes, replays = s.replays, routes_done = s.routes_done
FROM {{state}} s
WHERE s.sequence = m.sequence
-- statement
DROP TABLE {{state}}
-- statement
CREATE INDEX IF NOT EXISTS "{{prefix}}_dead" ON {{messages}} (sequence) INCLUDE (dead_reason) WHERE dead_at IS NOT NULL
