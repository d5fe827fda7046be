package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// MySQL is MariaDB, by its protocol.
const MySQL Driver = "mysql"

type mysqlDB struct {
	db    *sql.DB
	store *mysqlstore.Store
}

// openMySQL names the process twice: in a session variable for the trigger, and in the
// connection's attributes for whoever wants to kill its connections. Network timeouts are
// as an application sets them: a rollback has no context that would end.
func openMySQL(dsn, name string) (*mysqlDB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 2*time.Second, 5*time.Second, 5*time.Second
	cfg.InterpolateParams = true
	cfg.ConnectionAttributes = "program_name:" + name
	cfg.Params = map[string]string{"@torture_writer": "'" + name + "'", "time_zone": "'+00:00'"}
	cfg.Logger = &mysql.NopLogger{} // connections that break are what this is about
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	store, err := mysqlstore.New(db, mysqlstore.Config{Table: table})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &mysqlDB{db: db, store: store}, nil
}

func (d *mysqlDB) Store() outbox.Store { return d.store }
func (d *mysqlDB) SQL() *sql.DB        { return d.db }
func (d *mysqlDB) Close()              { _ = d.db.Close() }

func (d *mysqlDB) Create(ctx context.Context) error {
	if _, err := d.store.Migrate(ctx); err != nil {
		return err
	}
	for _, statement := range mysqlWitness {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create the witness: %w", err)
		}
	}
	return nil
}

func (d *mysqlDB) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	return &mysqlTx{d.store, tx}, err
}

type mysqlTx struct {
	store *mysqlstore.Store
	tx    *sql.Tx
}

func (t *mysqlTx) Business(ctx context.Context, id string) error {
	_, err := t.tx.ExecContext(ctx, `INSERT INTO torture_business (id) VALUES (?)`, id)
	return err
}

func (t *mysqlTx) Enqueue(ctx context.Context, msg outbox.Message) error {
	_, err := t.store.Enqueue(ctx, t.tx, msg)
	return err
}

func (t *mysqlTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) error {
	_, err := t.store.EnqueueMany(ctx, t.tx, msgs)
	return err
}

func (t *mysqlTx) Savepoint(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, savepoint)
	return err
}

func (t *mysqlTx) RollbackTo(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, rollbackTo)
	return err
}

func (t *mysqlTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t *mysqlTx) Rollback(context.Context) error { return t.tx.Rollback() }

// mysqlWitness is the witness in MariaDB's dialect; its triggers know rows only. They look
// at the lease without a lock, or the witness would change how transactions meet: under
// READ COMMITTED they see what was committed when the statement began, and whatever their
// own transaction has locked cannot have changed since. SYSDATE is the time of the call and
// not of the statement; the sessions are in UTC.
var mysqlWitness = []string{
	`CREATE TABLE torture_business (id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY) ENGINE=InnoDB`,
	`CREATE TABLE torture_witness (
  no            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sequence      BIGINT       NOT NULL,
  event_id      VARCHAR(36)  NOT NULL,
  deleted       TINYINT      NOT NULL,
  was_published TINYINT      NOT NULL,
  is_published  TINYINT      NOT NULL,
  was_dead      TINYINT      NOT NULL,
  is_dead       TINYINT      NOT NULL,
  was_attempts  INT          NOT NULL,
  is_attempts   INT          NOT NULL,
  was_replays   INT          NOT NULL,
  is_replays    INT          NOT NULL,
  writer        VARCHAR(255) NOT NULL,
  holder        VARCHAR(255) NOT NULL,
  shard         INT          NOT NULL,
  epoch         BIGINT       NOT NULL,
  age           BIGINT       NOT NULL,
  at            BIGINT       NOT NULL
) ENGINE=InnoDB DEFAULT CHARACTER SET ascii`,
	`CREATE TABLE torture_lease (
  no       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  shard    INT          NOT NULL,
  instance VARCHAR(255) NOT NULL,
  held     TINYINT      NOT NULL,
  epoch    BIGINT       NOT NULL,
  at       BIGINT       NOT NULL
) ENGINE=InnoDB DEFAULT CHARACTER SET ascii`,
	`CREATE TRIGGER torture_updated AFTER UPDATE ON outbox FOR EACH ROW
BEGIN
  DECLARE holder VARCHAR(255) DEFAULT '';
  DECLARE held_shard INT DEFAULT -1;
  DECLARE held_epoch BIGINT DEFAULT -1;
  SELECT instance, shard, epoch INTO holder, held_shard, held_epoch
    FROM outbox_lease WHERE OLD.slot BETWEEN slot_lo AND slot_hi LIMIT 1;
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch, age, at)
  VALUES (OLD.sequence, OLD.event_id, 0, OLD.published_at IS NOT NULL, NEW.published_at IS NOT NULL,
    OLD.dead_at IS NOT NULL, NEW.dead_at IS NOT NULL, OLD.attempts, NEW.attempts, OLD.replays, NEW.replays,
    COALESCE(@torture_writer, ''), holder, held_shard, held_epoch, 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)));
END`,
	`CREATE TRIGGER torture_deleted AFTER DELETE ON outbox FOR EACH ROW
BEGIN
  DECLARE holder VARCHAR(255) DEFAULT '';
  DECLARE held_shard INT DEFAULT -1;
  DECLARE held_epoch BIGINT DEFAULT -1;
  SELECT instance, shard, epoch INTO holder, held_shard, held_epoch
    FROM outbox_lease WHERE OLD.slot BETWEEN slot_lo AND slot_hi LIMIT 1;
  INSERT INTO torture_witness (sequence, event_id, deleted, was_published, is_published, was_dead, is_dead,
    was_attempts, is_attempts, was_replays, is_replays, writer, holder, shard, epoch, age, at)
  VALUES (OLD.sequence, OLD.event_id, 1, OLD.published_at IS NOT NULL, 0, OLD.dead_at IS NOT NULL, 0,
    OLD.attempts, 0, OLD.replays, 0, COALESCE(@torture_writer, ''), holder, held_shard, held_epoch,
    COALESCE(TIMESTAMPDIFF(MICROSECOND, OLD.published_at, SYSDATE(6)), 0), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)));
END`,
	`CREATE TRIGGER torture_handover AFTER UPDATE ON outbox_lease FOR EACH ROW
BEGIN
  IF NOT (OLD.owner <=> NEW.owner) THEN
    INSERT INTO torture_lease (shard, instance, held, epoch, at)
    VALUES (NEW.shard, NEW.instance, NEW.owner IS NOT NULL, NEW.epoch, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)));
  END IF;
END`,
}

// mysqlLeftovers are transactions that no stopped program leaves in a database.
const mysqlLeftovers = `
SELECT CONCAT('a transaction of connection ', p.id)
FROM information_schema.innodb_trx JOIN information_schema.processlist p ON p.id = trx_mysql_thread_id
WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()`

// mysqlConnections counts the connections of each process.
const mysqlConnections = `
SELECT attr_value, count(*) FROM performance_schema.session_connect_attrs WHERE attr_name = 'program_name' GROUP BY 1`
