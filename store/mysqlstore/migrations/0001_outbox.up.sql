-- The tables all outboxes of this database share. DDL commits by itself here, so every
-- statement can be run again after a migration that was interrupted.
--
-- Times are DATETIME(6) in UTC: they are not converted by time_zone, unlike TIMESTAMP,
-- and they do not end in 2038.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name VARCHAR(64)  NOT NULL,
  version    INT          NOT NULL,
  name       VARCHAR(255) NOT NULL,
  applied_at DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (table_name, version)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- What operators did, and why. Nothing of ours deletes from it. event_id is of a message
-- or of a job; filter is JSON.
CREATE TABLE IF NOT EXISTS {{audit}} (
  id            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at            DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  table_name    VARCHAR(64)  NOT NULL,
  actor         TEXT         NOT NULL,
  verb          VARCHAR(64)  NOT NULL,
  event_id      VARCHAR(36)  CHARACTER SET ascii COLLATE ascii_bin,
  sequence      BIGINT,
  reason        TEXT         NOT NULL,
  status_before VARCHAR(32),
  status_after  VARCHAR(32),
  route         VARCHAR(255)  NOT NULL DEFAULT '',
  msg_key       VARCHAR(1024) NOT NULL DEFAULT '',
  filter        MEDIUMTEXT,
  messages      INT           NOT NULL DEFAULT 0,
  KEY outbox_audit_event (event_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- Bulk changes: what was asked for, and how far it is. filter is JSON. cut is when it was
-- started, next_at until when its rate is used up.
CREATE TABLE IF NOT EXISTS {{job}} (
  id         VARCHAR(36)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  table_name VARCHAR(64)  NOT NULL,
  verb       VARCHAR(64)  NOT NULL,
  filter     MEDIUMTEXT   NOT NULL,
  expect     INT          NOT NULL,
  cap        INT          NOT NULL,
  rate       INT          NOT NULL,
  actor      TEXT         NOT NULL,
  reason     TEXT         NOT NULL,
  state      VARCHAR(32)  NOT NULL,
  total      INT          NOT NULL,
  done       INT          NOT NULL DEFAULT 0,
  position   BIGINT       NOT NULL DEFAULT 0,
  cut        DATETIME(6)  NOT NULL,
  next_at    DATETIME(6),
  driver     VARCHAR(255) NOT NULL DEFAULT '',
  driven_at  DATETIME(6),
  created_at DATETIME(6)  NOT NULL,
  updated_at DATETIME(6)  NOT NULL,
  KEY outbox_job_newest (table_name, created_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- What operators and relays know about routes. The route '' is the whole table;
-- paused_at says that it is paused.
CREATE TABLE IF NOT EXISTS {{route}} (
  table_name VARCHAR(64)  NOT NULL,
  route      VARCHAR(255) NOT NULL,
  paused_at  DATETIME(6),
  paused_by  VARCHAR(255),
  reason     TEXT,
  note       TEXT,
  updated_at DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (table_name, route)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- The messages. Every column but topic and payload has a default, so that a plain
-- INSERT from any language works. created_at and available_at default to the same
-- moment: they are equal unless the message was scheduled or put back.
--
-- There are no partial indexes here, so held says which messages wait for something:
-- 1 was scheduled or put back, 2 is dead, NULL is all others. Publishing a fresh message
-- leaves it NULL and writes no index. {{prefix}}_due serves the due part of a read,
-- {{prefix}}_held the heads that a new owner reads in pages, and lists of the dead.
-- event_id is VARCHAR because CHAR may be padded, and slot is computed from it.
-- payload is bytes: a text column would be checked and could be converted.
CREATE TABLE IF NOT EXISTS {{table}} (
  sequence BIGINT NOT NULL AUTO_INCREMENT,
  created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  available_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  published_at DATETIME(6) NULL,
  dead_at DATETIME(6) NULL,
  locked_at DATETIME(6) NULL,
  attempts INT NOT NULL DEFAULT 0,
  crashes INT NOT NULL DEFAULT 0,
  replays INT NOT NULL DEFAULT 0,
  event_version INT NULL,
  event_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()),
  tenant_id VARCHAR(255) NOT NULL DEFAULT '',
  topic VARCHAR(255) NOT NULL,
  msg_key VARCHAR(1024) NOT NULL DEFAULT '',
  slot SMALLINT GENERATED ALWAYS AS (CRC32(CASE WHEN LENGTH(msg_key) = 0 THEN event_id ELSE msg_key END) & 255) STORED,
  held TINYINT GENERATED ALWAYS AS (CASE WHEN published_at IS NOT NULL THEN NULL WHEN dead_at IS NOT NULL THEN 2 WHEN available_at > created_at THEN 1 END) STORED,
  aggregate_type VARCHAR(255) NULL,
  aggregate_id VARCHAR(255) NULL,
  event_type VARCHAR(255) NULL,
  content_type VARCHAR(255) NULL,
  headers MEDIUMTEXT NULL,
  traceparent VARCHAR(512) NULL,
  tracestate VARCHAR(512) NULL,
  dead_reason VARCHAR(64) NULL,
  last_error MEDIUMTEXT NULL,
  routes_done MEDIUMTEXT NULL,
  payload LONGBLOB NOT NULL,
  PRIMARY KEY (sequence),
  UNIQUE KEY `{{prefix}}_event_id` (event_id),
  KEY `{{prefix}}_due` (held, available_at, sequence),
  KEY `{{prefix}}_held` (held, sequence),
  CONSTRAINT `{{prefix}}_times` CHECK (created_at >= '1970-01-01' AND available_at >= '1970-01-01'),
  CONSTRAINT `{{prefix}}_topic` CHECK (topic <> ''),
  CONSTRAINT `{{prefix}}_event_id_form` CHECK (LENGTH(event_id) = 36 AND event_id = LOWER(event_id)),
  CONSTRAINT `{{prefix}}_attempts` CHECK (attempts >= 0)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- One row per shard.
CREATE TABLE IF NOT EXISTS {{lease}} (
  shard      SMALLINT     NOT NULL PRIMARY KEY,
  slot_lo    SMALLINT     NOT NULL,
  slot_hi    SMALLINT     NOT NULL,
  owner      VARCHAR(36)  CHARACTER SET ascii COLLATE ascii_bin,
  instance   VARCHAR(255) NOT NULL DEFAULT '',
  epoch      BIGINT       NOT NULL DEFAULT 0,
  expires_at DATETIME(6),
  draining   TINYINT      NOT NULL DEFAULT 0,
  nudge      BIGINT       NOT NULL DEFAULT 0,
  low        BIGINT       NOT NULL DEFAULT 0
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
INSERT INTO {{lease}} (shard, slot_lo, slot_hi)
SELECT 0, 0, 255 FROM (SELECT COUNT(*) AS n FROM {{lease}}) l WHERE l.n = 0
-- statement
-- What is in flight: one row per batch, inserted before dispatch and deleted when it is
-- settled. ids are the exact sequences as runs, [[1,500],[502,502]], a form that SQL can
-- read too. server is when the server was started that it was recorded on: its restart
-- excuses whoever vanished.
CREATE TABLE IF NOT EXISTS {{batch}} (
  shard       SMALLINT    NOT NULL,
  epoch       BIGINT      NOT NULL,
  no          BIGINT      NOT NULL,
  ids         LONGTEXT    NOT NULL,
  crashes     INT         NOT NULL DEFAULT 0,
  in_flight   TINYINT     NOT NULL DEFAULT 1,
  solo        TINYINT     NOT NULL DEFAULT 0,
  lost        TINYINT     NOT NULL DEFAULT 0,
  beat        DATETIME(6),
  recorded_at DATETIME(6) NOT NULL,
  server      DATETIME(6) NOT NULL,
  PRIMARY KEY (shard, epoch, no)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- ttl is in microseconds; note is JSON.
CREATE TABLE IF NOT EXISTS {{relay}} (
  instance VARCHAR(255) NOT NULL PRIMARY KEY,
  version  VARCHAR(255) NOT NULL DEFAULT '',
  seen_at  DATETIME(6)  NOT NULL,
  ttl      BIGINT       NOT NULL,
  note     MEDIUMTEXT   NOT NULL
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- The newest attempts of each message that did not simply succeed.
CREATE TABLE IF NOT EXISTS {{attempt}} (
  id       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sequence BIGINT       NOT NULL,
  at       DATETIME(6)  NOT NULL,
  attempt  INT          NOT NULL,
  route    VARCHAR(255) NOT NULL DEFAULT '',
  outcome  VARCHAR(32)  NOT NULL,
  error    MEDIUMTEXT   NOT NULL,
  took     BIGINT       NOT NULL DEFAULT 0,
  KEY `{{prefix}}_attempt_by_message` (sequence, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- The derived status, for people with a SQL prompt. The program derives the same in Go.
CREATE OR REPLACE VIEW {{schema}}`{{prefix}}_status` AS
SELECT m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key,
  CASE
    WHEN m.published_at IS NOT NULL THEN 'published'
    WHEN m.dead_at IS NOT NULL AND m.dead_reason = 'discarded' THEN 'discarded'
    WHEN m.dead_at IS NOT NULL THEN 'dead'
    WHEN EXISTS (
      SELECT 1
      FROM {{batch}} b
      JOIN JSON_TABLE(b.ids, '$[*]' COLUMNS (lo BIGINT PATH '$[0]', hi BIGINT PATH '$[1]')) r
      WHERE m.sequence BETWEEN r.lo AND r.hi AND m.available_at <= b.recorded_at
    ) THEN 'in_flight'
    WHEN m.attempts > 0 THEN 'retrying'
    WHEN m.available_at > UTC_TIMESTAMP(6) THEN 'scheduled'
    ELSE 'pending'
  END AS status,
  m.attempts, m.crashes, m.replays, m.last_error, m.dead_reason,
  m.created_at, m.available_at, m.published_at, m.dead_at
FROM {{table}} m
-- statement
-- What the program did of its own accord to messages that failed, in the words of an
-- audit: every failed dispatch, and giving up.
CREATE OR REPLACE VIEW {{schema}}`{{prefix}}_audit_actions` AS
SELECT a.at, m.event_id, m.sequence, m.tenant_id, m.topic,
  CASE a.outcome WHEN 'dead' THEN 'outbox-failed-permanent' ELSE 'outbox-send-failed' END AS action,
  a.attempt AS attempts, a.error AS last_error, a.route
FROM {{attempt}} a
JOIN {{table}} m ON m.sequence = a.sequence
WHERE a.outcome IN ('retry', 'dead')
