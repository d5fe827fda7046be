-- The versions of all outboxes and inboxes of the schema.
CREATE TABLE IF NOT EXISTS {{migration}} (
  table_name text        NOT NULL,
  version    integer     NOT NULL,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  PRIMARY KEY (table_name, version)
)
-- statement
-- One row per event that a consumer has handled. Rows are never updated.
CREATE TABLE {{table}} (
  marked_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
  event_id  uuid        NOT NULL,
  consumer  text        COLLATE "C" NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05)
-- statement
-- For the cleaner. It grows at its end only and shrinks at its front.
CREATE INDEX "{{prefix}}_marked_at" ON {{table}} (marked_at)
