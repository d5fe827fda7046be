-- Tables that all outboxes of a schema share.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name text        NOT NULL,
  version    integer     NOT NULL,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  PRIMARY KEY (table_name, version)
)
-- statement
-- Who changed what, when and why. Append-only: the roles of PrintGrants cannot
-- update or delete it. event_id is of a message or of a job.
CREATE TABLE IF NOT EXISTS {{audit}} (
  id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at            timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  table_name    text        NOT NULL,
  actor         text        NOT NULL,
  verb          text        NOT NULL,
  event_id      uuid,
  sequence      bigint,
  reason        text        NOT NULL,
  status_before text,
  status_after  text,
  route         text        NOT NULL DEFAULT '',
  msg_key       text        NOT NULL DEFAULT '',
  filter        json,
  messages      integer     NOT NULL DEFAULT 0
)
-- statement
CREATE INDEX IF NOT EXISTS outbox_audit_event ON {{audit}} (event_id) WHERE event_id IS NOT NULL
-- statement
-- Bulk changes: what was asked for, and how far it is. cut is when it was started,
-- next_at until when its rate is used up.
CREATE TABLE IF NOT EXISTS {{job}} (
  id         uuid        PRIMARY KEY,
  table_name text        NOT NULL,
  verb       text        NOT NULL,
  filter     json        NOT NULL,
  expect     integer     NOT NULL,
  cap        integer     NOT NULL,
  rate       integer     NOT NULL,
  actor      text        NOT NULL,
  reason     text        NOT NULL,
  state      text        NOT NULL,
  total      integer     NOT NULL,
  done       integer     NOT NULL DEFAULT 0,
  cursor     bigint      NOT NULL DEFAULT 0,
  cut        timestamptz NOT NULL,
  next_at    timestamptz,
  driver     text        NOT NULL DEFAULT '',
  driven_at  timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
)
-- statement
-- What operators and relays know about routes. The route '' is the whole table.
CREATE TABLE IF NOT EXISTS {{route}} (
  table_name text        NOT NULL,
  route      text        NOT NULL,
  paused_at  timestamptz,
  paused_by  text,
  reason     text,
  note       json,
  updated_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  PRIMARY KEY (table_name, route)
)
-- statement
-- One row per shard. system_id and timeline remember the server that the lease
-- was last taken on, so that a restored database is noticed.
CREATE TABLE {{lease}} (
  shard      smallint    PRIMARY KEY,
  slot_lo    smallint    NOT NULL,
  slot_hi    smallint    NOT NULL,
  owner      uuid,
  instance   text,
  epoch      bigint      NOT NULL DEFAULT 0,
  expires_at timestamptz,
  draining   boolean     NOT NULL DEFAULT false,
  nudge      bigint      NOT NULL DEFAULT 0,
  low        bigint      NOT NULL DEFAULT 0,
  system_id  bigint,
  timeline   bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)
-- statement
INSERT INTO {{lease}} (shard, slot_lo, slot_hi) VALUES (0, 0, 255)
-- statement
-- What is in flight: one row per batch, inserted before dispatch and deleted when
-- it is settled. server is when the server was started that it was recorded on: its
-- restart excuses whoever vanished.
CREATE TABLE {{batch}} (
  shard       smallint       NOT NULL,
  epoch       bigint         NOT NULL,
  no          bigint         NOT NULL,
  ids         int8multirange NOT NULL,
  crashes     smallint       NOT NULL DEFAULT 0,
  in_flight   boolean        NOT NULL DEFAULT true,
  solo        boolean        NOT NULL DEFAULT false,
  lost        boolean        NOT NULL DEFAULT false,
  beat        timestamptz,
  recorded_at timestamptz    NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  server      timestamptz    NOT NULL DEFAULT pg_catalog.pg_postmaster_start_time(),
  PRIMARY KEY (shard, epoch, no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
-- statement
CREATE TABLE {{relay}} (
  instance text        PRIMARY KEY,
  version  text        NOT NULL DEFAULT '',
  seen_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  ttl      interval    NOT NULL,
  note     json        NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50)
-- statement
-- The history of failed dispatches, the newest of each message.
CREATE TABLE {{attempt}} (
  id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  sequence bigint      NOT NULL,
  at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  attempt  integer     NOT NULL,
  route    text        NOT NULL DEFAULT '',
  outcome  text        NOT NULL,
  error    text        NOT NULL DEFAULT '',
  took     bigint      NOT NULL DEFAULT 0
)
-- statement
CREATE INDEX "{{prefix}}_attempt_by_message" ON {{attempt}} (sequence, id)
-- statement
-- What the columns of this layout cannot say. Only messages that need it have a row.
CREATE TABLE {{state}} (
  sequence    bigint      PRIMARY KEY,
  dead_at     timestamptz,
  dead_reason text,
  crashes     smallint    NOT NULL DEFAULT 0,
  replays     smallint    NOT NULL DEFAULT 0,
  routes_done text[]
)
-- statement
-- The messages in the shape of the full layout, for every statement that reads.
CREATE VIEW {{table}} AS
SELECT m.id, m.sequence, m.created_at, m.available_at, m.published_at, s.dead_at, m.locked_at, m.event_id, m.attempts,
  pg_catalog.substring(m.topic, '\.v([1-9][0-9]{0,8})$')::integer AS event_version,
  COALESCE(s.crashes, 0::smallint) AS crashes, COALESCE(s.replays, 0::smallint) AS replays,
  (pg_catalog.hashtextextended(m.event_id::text, 0) & 255)::smallint AS slot,
  CASE WHEN m.tenant_id = '00000000-0000-0000-0000-000000000000' THEN '' ELSE m.tenant_id::text END AS tenant_id,
  m.topic, ''::text COLLATE "C" AS msg_key, NULL::text AS aggregate_type, NULL::text AS aggregate_id, NULL::text AS event_type,
  NULL::text AS content_type, NULL::json AS headers, {{trace_viewed}},
  s.dead_reason, m.last_error, s.routes_done, m.payload
FROM {{messages}} m
LEFT JOIN {{state}} s ON s.sequence = m.sequence
-- statement
-- The derived status, for people. The program derives the same in Go.
CREATE VIEW {{status_view}} AS
SELECT m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key, m.created_at, m.available_at,
       m.published_at, m.dead_at, m.dead_reason, m.attempts, m.crashes, m.replays, m.last_error,
       CASE
         WHEN m.published_at IS NOT NULL THEN 'published'
         WHEN m.dead_at IS NOT NULL AND m.dead_reason = 'discarded' THEN 'discarded'
         WHEN m.dead_at IS NOT NULL THEN 'dead'
         WHEN EXISTS (SELECT 1 FROM {{batch}} b WHERE b.ids @> m.sequence AND m.available_at <= b.recorded_at) THEN 'in_flight'
         WHEN m.attempts > 0 THEN 'retrying'
         WHEN m.available_at > pg_catalog.now() THEN 'scheduled'
         ELSE 'pending'
       END AS status
FROM {{table}} m
-- statement
-- What the program did of its own accord to messages that failed, in the words of an
-- audit: every failed dispatch, and giving up.
CREATE VIEW {{schema}}"{{prefix}}_audit_actions" AS
SELECT a.at, m.event_id, m.sequence, m.tenant_id, m.topic,
       CASE a.outcome WHEN 'dead' THEN 'outbox-failed-permanent' ELSE 'outbox-send-failed' END AS action,
       a.attempt AS attempts, a.error AS last_error, a.route
FROM {{attempt}} a
JOIN {{table}} m ON m.sequence = a.sequence
WHERE a.outcome IN ('retry', 'dead')
