package torture

// The witness: a trigger writes each change of a message row into a table, in the
// transaction that made the change, with who made it and who held the lease then. It
// believes no relay: a write by a process that does not hold the lease, a published
// row that changes, a message that comes back from the dead are seen here whatever the
// logs say. Another one writes down who takes and gives back leases.

const businessTable = `
CREATE TABLE torture_business (id text PRIMARY KEY);
`

const sqliteWitness = `
CREATE TABLE torture_witness (
  no            INTEGER PRIMARY KEY AUTOINCREMENT,
  sequence      INTEGER NOT NULL,
  event_id      TEXT    NOT NULL,
  deleted       INTEGER NOT NULL,
  was_published INTEGER NOT NULL,
  is_published  INTEGER NOT NULL,
  was_dead      INTEGER NOT NULL,
  is_dead       INTEGER NOT NULL,
  was_attempts  INTEGER NOT NULL,
  is_attempts   INTEGER NOT NULL,
  was_replays   INTEGER NOT NULL,
  is_replays    INTEGER NOT NULL,
  writer        TEXT    NOT NULL,
  holder        TEXT    NOT NULL,
  shard         INTEGER NOT NULL,
  epoch         INTEGER NOT NULL,
  age           INTEGER NOT NULL DEFAULT 0,
  at            INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
);
CREATE TABLE torture_lease (
  no       INTEGER PRIMARY KEY AUTOINCREMENT,
  shard    INTEGER NOT NULL,
  instance TEXT    NOT NULL,
  held     INTEGER NOT NULL,
  epoch    INTEGER NOT NULL,
  at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
);
CREATE TRIGGER torture_update AFTER UPDATE ON outbox
BEGIN
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch)
  VALUES (OLD.sequence, OLD.event_id, 0, OLD.published_at IS NOT NULL, NEW.published_at IS NOT NULL,
    OLD.dead_at IS NOT NULL, NEW.dead_at IS NOT NULL, OLD.attempts, NEW.attempts, OLD.replays, NEW.replays,
    torture_writer(), (SELECT instance FROM outbox_lease WHERE shard = 0), 0,
    (SELECT epoch FROM outbox_lease WHERE shard = 0));
END;
CREATE TRIGGER torture_delete AFTER DELETE ON outbox
BEGIN
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch, age)
  VALUES (OLD.sequence, OLD.event_id, 1, OLD.published_at IS NOT NULL, 0, OLD.dead_at IS NOT NULL, 0,
    OLD.attempts, 0, OLD.replays, 0, torture_writer(), (SELECT instance FROM outbox_lease WHERE shard = 0), 0,
    (SELECT epoch FROM outbox_lease WHERE shard = 0),
    coalesce(CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) - OLD.published_at, 0));
END;
CREATE TRIGGER torture_handover AFTER UPDATE OF owner ON outbox_lease WHEN OLD.owner IS NOT NEW.owner
BEGIN
  INSERT INTO torture_lease (shard, instance, held, epoch)
  VALUES (NEW.shard, coalesce(NEW.instance, ''), NEW.owner IS NOT NULL, NEW.epoch);
END;
`

// The functions are VOLATILE, so that their look at the lease is newer than the statement
// that fired them: what a stale writer believes is older. They see all rows of a statement
// at once, as late as a call for each row would: after the statement.
const postgresWitness = `
CREATE TABLE torture_witness (
  no            bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  sequence      bigint      NOT NULL,
  event_id      uuid        NOT NULL,
  deleted       boolean     NOT NULL,
  was_published boolean     NOT NULL,
  is_published  boolean     NOT NULL,
  was_dead      boolean     NOT NULL,
  is_dead       boolean     NOT NULL,
  was_attempts  integer     NOT NULL,
  is_attempts   integer     NOT NULL,
  was_replays   integer     NOT NULL,
  is_replays    integer     NOT NULL,
  writer        text        NOT NULL,
  holder        text        NOT NULL,
  shard         integer     NOT NULL,
  epoch         bigint      NOT NULL,
  age           bigint      NOT NULL,
  at            timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE torture_lease (
  no       bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  shard    integer     NOT NULL,
  instance text        NOT NULL,
  held     boolean     NOT NULL,
  epoch    bigint      NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE FUNCTION torture_updated() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch, age)
  SELECT was.sequence, was.event_id, false, was.published_at IS NOT NULL, now.published_at IS NOT NULL,
    was.dead_at IS NOT NULL, now.dead_at IS NOT NULL, was.attempts, now.attempts, was.replays, now.replays,
    current_setting('application_name'), coalesce(lease.instance, ''), coalesce(lease.shard, -1), coalesce(lease.epoch, -1), 0
  FROM was JOIN now USING (sequence) LEFT JOIN outbox_lease lease ON was.slot BETWEEN lease.slot_lo AND lease.slot_hi;
  RETURN NULL;
END $$;
CREATE TRIGGER torture_updated AFTER UPDATE ON outbox
  REFERENCING OLD TABLE AS was NEW TABLE AS now FOR EACH STATEMENT EXECUTE FUNCTION torture_updated();
CREATE FUNCTION torture_deleted() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch, age)
  SELECT was.sequence, was.event_id, true, was.published_at IS NOT NULL, false, was.dead_at IS NOT NULL, false,
    was.attempts, 0, was.replays, 0,
    current_setting('application_name'), coalesce(lease.instance, ''), coalesce(lease.shard, -1), coalesce(lease.epoch, -1),
    coalesce(extract(epoch FROM clock_timestamp() - was.published_at) * 1000000, 0)
  FROM was LEFT JOIN outbox_lease lease ON was.slot BETWEEN lease.slot_lo AND lease.slot_hi;
  RETURN NULL;
END $$;
CREATE TRIGGER torture_deleted AFTER DELETE ON outbox
  REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION torture_deleted();
CREATE FUNCTION torture_handover() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO torture_lease (shard, instance, held, epoch)
  VALUES (NEW.shard, coalesce(NEW.instance, ''), NEW.owner IS NOT NULL, NEW.epoch);
  RETURN NULL;
END $$;
CREATE TRIGGER torture_handover AFTER UPDATE OF owner ON outbox_lease FOR EACH ROW
  WHEN (OLD.owner IS DISTINCT FROM NEW.owner) EXECUTE FUNCTION torture_handover();
`
