-- The versions of all outboxes and inboxes of the file. Times are INTEGER microseconds
-- since 1970 UTC.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  applied_at INTEGER NOT NULL DEFAULT ({{clock}}),
  PRIMARY KEY (table_name, version)
) WITHOUT ROWID;
-- statement
-- One row per event that a consumer has handled. The id is the 36 characters of a UUID.
CREATE TABLE {{table}} (
  consumer  TEXT    NOT NULL,
  event_id  TEXT    NOT NULL CHECK (length(event_id) = 36 AND event_id = lower(event_id)),
  marked_at INTEGER NOT NULL DEFAULT ({{clock}}),
  PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
-- statement
-- For the cleaner. It grows at its end only and shrinks at its front.
CREATE INDEX "{{prefix}}_marked_at" ON {{table}} (marked_at);
