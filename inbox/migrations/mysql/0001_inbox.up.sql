-- The versions of all outboxes and inboxes of the database. DDL commits by itself here,
-- so every statement may be run again.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name VARCHAR(64)  NOT NULL,
  version    INT          NOT NULL,
  name       VARCHAR(255) NOT NULL,
  applied_at DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (table_name, version)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
-- statement
-- One row per event that a consumer has handled. deliveries counts the duplicates that
-- were skipped, which is also how a duplicate is told from a new event.
CREATE TABLE IF NOT EXISTS {{table}} (
  consumer   VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event_id   BINARY(16)   NOT NULL,
  deliveries INT UNSIGNED NOT NULL DEFAULT 1,
  marked_at  DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (consumer, event_id),
  KEY `{{prefix}}_marked_at` (marked_at)
) ENGINE=InnoDB
-- statement
-- Whoever marks an event locks its stripe first; see mark.sql. Nothing writes to it.
CREATE TABLE IF NOT EXISTS {{stripe}} (
  no SMALLINT UNSIGNED NOT NULL PRIMARY KEY
) ENGINE=InnoDB
-- statement
INSERT IGNORE INTO {{stripe}} (no)
SELECT a.n * 512 + b.n * 64 + c.n * 8 + d.n
FROM {{eight}} a JOIN {{eight}} b JOIN {{eight}} c JOIN {{eight}} d
