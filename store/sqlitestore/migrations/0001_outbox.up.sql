-- The tables all outboxes of this file share.
--
-- Times are INTEGER microseconds since 1970 UTC. The default clock goes through
-- julianday, which every SQLite has; unixepoch('subsec') would turn a plain
-- INSERT from a program with SQLite before 3.42 into a NULL. It has milliseconds,
-- and is the same for all columns of one statement.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  applied_at INTEGER NOT NULL DEFAULT ({{clock}}),
  PRIMARY KEY (table_name, version)
) WITHOUT ROWID;
-- statement
-- What operators did, and why. Nothing deletes from it: the triggers see to that.
-- event_id is of a message or of a job; filter is JSON.
CREATE TABLE IF NOT EXISTS {{audit}} (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  at            INTEGER NOT NULL DEFAULT ({{clock}}),
  table_name    TEXT    NOT NULL,
  actor         TEXT    NOT NULL,
  verb          TEXT    NOT NULL,
  event_id      TEXT,
  sequence      INTEGER,
  reason        TEXT    NOT NULL,
  status_before TEXT,
  status_after  TEXT,
  route         TEXT    NOT NULL DEFAULT '',
  msg_key       TEXT    NOT NULL DEFAULT '',
  filter        TEXT,
  messages      INTEGER NOT NULL DEFAULT 0
);
-- statement
CREATE INDEX IF NOT EXISTS "outbox_audit_event" ON {{audit}} (event_id) WHERE event_id IS NOT NULL;
-- statement
CREATE TRIGGER IF NOT EXISTS "outbox_audit_stays" BEFORE DELETE ON {{audit}}
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
-- statement
CREATE TRIGGER IF NOT EXISTS "outbox_audit_is_final" BEFORE UPDATE ON {{audit}}
BEGIN
  SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
-- statement
-- Bulk changes: what was asked for, and how far it is. filter is JSON. cut is when it
-- was started, next_at until when its rate is used up.
CREATE TABLE IF NOT EXISTS {{job}} (
  id         TEXT    NOT NULL PRIMARY KEY,
  table_name TEXT    NOT NULL,
  verb       TEXT    NOT NULL,
  filter     TEXT    NOT NULL,
  expect     INTEGER NOT NULL,
  cap        INTEGER NOT NULL,
  rate       INTEGER NOT NULL,
  actor      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  total      INTEGER NOT NULL,
  done       INTEGER NOT NULL DEFAULT 0,
  cursor     INTEGER NOT NULL DEFAULT 0,
  cut        INTEGER NOT NULL,
  next_at    INTEGER,
  driver     TEXT    NOT NULL DEFAULT '',
  driven_at  INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- statement
-- What operators and relays know about routes. The route '' is the whole table;
-- paused_at says that it is paused.
CREATE TABLE IF NOT EXISTS {{route}} (
  table_name TEXT    NOT NULL,
  route      TEXT    NOT NULL,
  paused_at  INTEGER,
  paused_by  TEXT,
  reason     TEXT,
  note       TEXT,
  updated_at INTEGER NOT NULL DEFAULT ({{clock}}),
  PRIMARY KEY (table_name, route)
) WITHOUT ROWID;
-- statement
-- The messages. Every column but topic and payload has a default, so that a plain
-- INSERT from any language works. AUTOINCREMENT, because without it SQLite gives
-- out the number of a deleted last row again and a relay would take the new
-- message for the old one. payload is last: reading the state of a row must not
-- follow the overflow pages of a large one. It has no affinity: JSON is kept as
-- TEXT, anything else as BLOB, byte for byte.
CREATE TABLE {{table}} (
  sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
  created_at     INTEGER NOT NULL DEFAULT ({{clock}}) CHECK (typeof(created_at) = 'integer'),
  available_at   INTEGER NOT NULL DEFAULT ({{clock}}) CHECK (typeof(available_at) = 'integer'),
  published_at   INTEGER,
  dead_at        INTEGER,
  locked_at      INTEGER,
  attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  crashes        INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0),
  replays        INTEGER NOT NULL DEFAULT 0 CHECK (replays >= 0),
  event_version  INTEGER,
  event_id       TEXT    NOT NULL UNIQUE DEFAULT (lower(
                   hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
                   substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))
                 )) CHECK (length(event_id) = 36 AND event_id = lower(event_id)),
  tenant_id      TEXT    NOT NULL DEFAULT '',
  topic          TEXT    NOT NULL CHECK (topic <> ''),
  msg_key        TEXT    NOT NULL DEFAULT '',
  aggregate_type TEXT,
  aggregate_id   TEXT,
  event_type     TEXT,
  content_type   TEXT,
  headers        TEXT,
  traceparent    TEXT,
  tracestate     TEXT,
  dead_reason    TEXT,
  last_error     TEXT,
  routes_done    TEXT,
  payload        BLOB    NOT NULL
);
-- statement
-- Serves the due part of a read: what was scheduled or put back, in the order it
-- falls due. An ordinary message never enters it, and one that is published or
-- dead leaves it.
CREATE INDEX "{{prefix}}_due" ON {{table}} (available_at)
  WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL;
-- statement
-- The same rows by sequence, for the heads that a new owner reads in pages:
-- sorting the due index for every page would be quadratic. As cheap as due.
CREATE INDEX "{{prefix}}_held" ON {{table}} (sequence)
  WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL;
-- statement
-- Dead messages by sequence: heads, dead counts and lists, the dead retention.
CREATE INDEX "{{prefix}}_dead" ON {{table}} (sequence) WHERE dead_at IS NOT NULL;
-- statement
-- Published messages by age, for the cleaner. Rows of one settle share the time
-- and ascend in sequence, so it grows at its end only and shrinks at its front.
-- Measured: settling 500 at a time is 12 % slower with it; a cleaner without it reads
-- the whole table to find nothing. An index on unpublished rows costs 25 % and is
-- left out: low in the lease says where reading begins.
CREATE INDEX "{{prefix}}_published" ON {{table}} (published_at) WHERE published_at IS NOT NULL;
-- statement
-- One shard: SQLite has one writer.
CREATE TABLE {{lease}} (
  shard      INTEGER PRIMARY KEY CHECK (shard = 0),
  slot_lo    INTEGER NOT NULL DEFAULT 0,
  slot_hi    INTEGER NOT NULL DEFAULT 255,
  owner      TEXT,
  instance   TEXT    NOT NULL DEFAULT '',
  epoch      INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER,
  draining   INTEGER NOT NULL DEFAULT 0,
  nudge      INTEGER NOT NULL DEFAULT 0,
  low        INTEGER NOT NULL DEFAULT 0
);
-- statement
INSERT INTO {{lease}} (shard) VALUES (0);
-- statement
-- Batches in flight. ids are the exact sequences as runs, [[1,500],[502,502]], a
-- form that SQL can read too.
CREATE TABLE {{batch}} (
  shard       INTEGER NOT NULL,
  epoch       INTEGER NOT NULL,
  no          INTEGER NOT NULL,
  instance    TEXT    NOT NULL DEFAULT '',
  ids         TEXT    NOT NULL CHECK (json_valid(ids)),
  crashes     INTEGER NOT NULL DEFAULT 0,
  in_flight   INTEGER NOT NULL DEFAULT 1,
  solo        INTEGER NOT NULL DEFAULT 0,
  beat        INTEGER,
  recorded_at INTEGER NOT NULL,
  PRIMARY KEY (shard, epoch, no)
) WITHOUT ROWID;
-- statement
CREATE TABLE {{relay}} (
  instance TEXT    NOT NULL PRIMARY KEY,
  version  TEXT    NOT NULL DEFAULT '',
  seen_at  INTEGER NOT NULL,
  ttl      INTEGER NOT NULL DEFAULT 0,
  note     TEXT    NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
-- statement
-- The newest attempts of each message that did not simply succeed.
CREATE TABLE {{attempt}} (
  sequence INTEGER NOT NULL,
  no       INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  route    TEXT    NOT NULL DEFAULT '',
  outcome  TEXT    NOT NULL,
  error    TEXT    NOT NULL DEFAULT '',
  took     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (sequence, no)
) WITHOUT ROWID;
-- statement
-- The history goes with its message, whoever deletes it. Only a message that was
-- put back or died can have one.
CREATE TRIGGER "{{prefix}}_forget" AFTER DELETE ON {{table}}
WHEN OLD.available_at > OLD.created_at OR OLD.dead_at IS NOT NULL
BEGIN
  DELETE FROM {{attempt}} WHERE sequence = OLD.sequence;
END;
-- statement
-- The derived status, for people with a SQL prompt. Record.Status in Go is the
-- same definition.
CREATE VIEW "{{prefix}}_status" AS
SELECT m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key,
  CASE
    WHEN m.published_at IS NOT NULL THEN 'published'
    WHEN m.dead_at IS NOT NULL AND m.dead_reason = 'discarded' THEN 'discarded'
    WHEN m.dead_at IS NOT NULL THEN 'dead'
    WHEN m.sequence IN (
      SELECT x.sequence
      FROM {{batch}} b
      CROSS JOIN json_each(b.ids) r
      CROSS JOIN {{table}} x ON x.sequence BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
      WHERE x.published_at IS NULL AND x.dead_at IS NULL AND x.available_at <= b.recorded_at
    ) THEN 'in_flight'
    WHEN m.attempts > 0 THEN 'retrying'
    WHEN m.available_at > {{clock}} THEN 'scheduled'
    ELSE 'pending'
  END AS status,
  m.attempts, m.crashes, m.replays, m.last_error, m.dead_reason,
  m.created_at, m.available_at, m.published_at, m.dead_at
FROM {{table}} m
-- statement
-- What the program did of its own accord to messages that failed, in the words of an
-- audit: every failed dispatch, and giving up.
CREATE VIEW "{{prefix}}_audit_actions" AS
SELECT a.at, m.event_id, m.sequence, m.tenant_id, m.topic,
  CASE a.outcome WHEN 'dead' THEN 'outbox-failed-permanent' ELSE 'outbox-send-failed' END AS action,
  a.attempt AS attempts, a.error AS last_error, a.route
FROM {{attempt}} a
JOIN {{table}} m ON m.sequence = a.sequence
WHERE a.outcome IN ('retry', 'dead')
