package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// openMySQL opens mysql:// and mariadb:// addresses. Query parameters are those of the
// driver.
func openMySQL(dsn string) (*database, error) {
	cfg, err := mysqlConfig(dsn)
	if err != nil {
		return nil, usagef("the DSN %s cannot be read: %v: want mysql://USER:PASSWORD@HOST:PORT/DATABASE", config.Redact(dsn), err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, usagef("the DSN %s cannot be read: want mysql://USER:PASSWORD@HOST:PORT/DATABASE", config.Redact(dsn))
	}
	db := sql.OpenDB(connector) // nothing connects before the first use
	return &database{
		table: func(name string) (store, error) {
			return mysqlstore.New(db, mysqlstore.Config{Table: name})
		},
		inbox: func(name string) (inboxTable, error) {
			return inbox.New(db, inbox.MySQL, inbox.Config{Table: name})
		},
		scratch: func(ctx context.Context) (*scratch, error) { return mysqlScratch(ctx, db) },
		ping: func(ctx context.Context) error {
			if err := db.PingContext(ctx); err != nil {
				return fmt.Errorf("connect to %s: %w\ncheck --dsn, and that the server can be reached", config.Redact(dsn), err)
			}
			return nil
		},
		close: func() { _ = db.Close() }, // nothing is written here that was not committed
	}, nil
}

// mysqlConfig reads a URL. The driver's own form, USER:PASSWORD@tcp(HOST)/DATABASE, is
// no URL and would need another scheme.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return nil, errors.New("not a URL with a host") // err would show the password
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" {
		return nil, errors.New("it names no database")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	password, _ := u.User.Password()
	cfg, err := mysql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return nil, err
	}
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), password, "tcp", host, database
	return cfg, nil
}

// mysqlScratch makes an outbox in a database of its own.
func mysqlScratch(ctx context.Context, db *sql.DB) (*scratch, error) {
	name := "outbox_bench_" + uuid.NewString()[:8]
	if _, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"`"); err != nil {
		return nil, err
	}
	drop := func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "DROP DATABASE `"+name+"`")
		return err
	}
	s, err := mysqlstore.New(db, mysqlstore.Config{Table: name + ".bench_outbox"})
	if err != nil {
		return nil, errors.Join(err, drop(ctx))
	}
	return &scratch{
		store: s,
		one: func(ctx context.Context, msg outbox.Message) error {
			_, err := s.EnqueueAutocommit(ctx, msg)
			return err
		},
		many: func(ctx context.Context, msgs []outbox.Message) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if _, err := s.EnqueueMany(ctx, tx, msgs); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
		drop: drop,
	}, nil
}
