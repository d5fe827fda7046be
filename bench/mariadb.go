package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// mariadbSettings are those of the measurements: durable (every commit is flushed, as
// by default), with as much room as PostgreSQL has.
var mariadbSettings = []string{
	"--innodb-flush-log-at-trx-commit=1",
	"--innodb-buffer-pool-size=1G",
	"--innodb-log-file-size=1G",
	"--max-connections=200",
	"--bind-address=127.0.0.1",
	"--skip-name-resolve",
}

func mariadbDatabase() sqlDatabase {
	server := &mariadb{}
	keep := ourMariaDB("go-sql-driver with interpolateParams; innodb_flush_log_at_trx_commit=1; "+narrowThroughput+", rows kept", narrow(tuned()))
	keep.enqueues, keep.keeps = true, true
	remove := ourMariaDB("the same, rows deleted", deleting(narrow(tuned())))
	remove.deletes = true
	return sqlDatabase{
		name: "mariadb", conns: []int{1, 16}, count: func(z sizes) int { return z.mariadb },
		systems: []sqlSystem{keep, remove, sqlUnclaimed(keep), watermillMySQL, sqlNothing},
		missing: func() error { _, _, err := mariadbPrograms(); return err },
		open:    server.database, rest: restMariaDB, close: server.close,
	}
}

func ourMariaDB(settings string, cfg relay.Config) sqlSystem {
	return sqlSystem{
		system: system{name: "outbox", settings: settings, settles: true},
		open: func(ctx context.Context, db *sql.DB) (*sqlQueue, error) {
			store, err := mysqlstore.New(db, mysqlstore.Config{Table: table})
			if err != nil {
				return nil, err
			}
			if _, err := store.Migrate(ctx); err != nil {
				return nil, err
			}
			return ourSQLQueue(db, store, cfg, func(ctx context.Context, tx *sql.Tx, msgs []outbox.Message) error {
				if len(msgs) == 1 {
					_, err := store.Enqueue(ctx, tx, msgs[0])
					return err
				}
				_, err := store.EnqueueMany(ctx, tx, msgs)
				return err
			}), nil
		},
	}
}

// watermillMySQL keeps an offset and deletes nothing.
var watermillMySQL = sqlSystem{
	system: system{
		name:       "watermill",
		settings:   "watermill-sql v4.0.0 on MariaDB, default schema and offsets: SubscribeBatchSize 1000, PollInterval 10 ms, one subscriber",
		sequential: true,
	},
	enqueues: true, keeps: true, deletes: true,
	open: func(_ context.Context, db *sql.DB) (*sqlQueue, error) {
		t := watermillTopic{wsql.BeginnerFromStdSQL(db), wsql.DefaultMySQLSchema{SubscribeBatchSize: 1000}, wsql.DefaultMySQLOffsetsAdapter{}}
		write := func(ctx context.Context, tx *sql.Tx, n, count int) error {
			return t.publish(ctx, wsql.TxFromStdSQL(tx), n, count)
		}
		return &sqlQueue{db: db, write: write, deliver: t.relay}, t.initialize()
	},
}

// restMariaDB gives the tables statistics.
func restMariaDB(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT table_name FROM information_schema.tables WHERE table_schema = database()`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.ExecContext(ctx, "ANALYZE TABLE `"+name+"`"); err != nil {
			return err
		}
	}
	return nil
}

// mariadb is a private server, started for the first database.
type mariadb struct {
	process *process
	admin   *sql.DB
	made    int // databases
}

func (m *mariadb) start(ctx context.Context) error {
	if m.process != nil {
		return nil
	}
	server, install, err := mariadbPrograms()
	if err != nil {
		return err
	}
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil { // it would complain until the server answers
		return err
	}
	if m.process, err = newProcess(); err != nil {
		return err
	}
	data := filepath.Join(m.process.dir, "data")
	err = m.process.prepare(ctx, install, "--no-defaults", "--datadir="+data, "--skip-test-db", "--auth-root-authentication-method=normal",
		"--innodb-flush-method=nosync")
	if err != nil {
		return err
	}
	if m.admin, err = sql.Open("mysql", m.dsn("")); err != nil {
		return err
	}
	argv := append([]string{server, "--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(m.process.dir, "socket"),
		"--pid-file=" + filepath.Join(m.process.dir, "pid"), "--port=" + strconv.Itoa(m.process.port)}, mariadbSettings...)
	return m.process.start(ctx, "TERM", argv, m.admin.PingContext)
}

func (m *mariadb) dsn(database string) string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?interpolateParams=true", m.process.port, database)
}

// database makes an empty database.
func (m *mariadb) database(ctx context.Context) (*sql.DB, func() error, error) {
	if err := m.start(ctx); err != nil {
		return nil, nil, err
	}
	m.made++
	name := fmt.Sprintf("bench_%d", m.made)
	if _, err := m.admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("mysql", m.dsn(name))
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	drop := func() error {
		err := db.Close()
		_, dropErr := m.admin.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name)
		return errors.Join(err, dropErr)
	}
	return db, drop, nil
}

func (m *mariadb) close(context.Context) error {
	if m.process == nil {
		return nil
	}
	var err error
	if m.admin != nil {
		err = m.admin.Close()
	}
	err = errors.Join(err, m.process.stop())
	*m = mariadb{}
	return err
}

// mariadbPrograms looks in /usr/sbin too, which is not on everybody's PATH.
func mariadbPrograms() (server, install string, err error) {
	if install, err = exec.LookPath("mariadb-install-db"); err != nil {
		return "", "", fmt.Errorf("MariaDB is not installed: %w", err)
	}
	if server, err = exec.LookPath("mariadbd"); err != nil {
		server, err = exec.LookPath("/usr/sbin/mariadbd")
	}
	return server, install, err
}
