package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// openMySQL opens mysql:// and mariadb:// addresses. Query parameters are those of the
// driver, and tls_ca, tls_cert and tls_key, which name PEM files.
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
	query := u.Query()
	secure, err := mysqlTLS(query)
	if err != nil {
		return nil, err
	}
	cfg, err := mysql.ParseDSN("/?" + query.Encode())
	if err != nil {
		return nil, err
	}
	if secure != nil {
		cfg.TLS = secure
	}
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), password, "tcp", host, database
	return cfg, nil
}

// mysqlTLS takes the parameters out of the query that name files, which the driver knows
// nothing of. With any of them the server is verified.
func mysqlTLS(query url.Values) (*tls.Config, error) {
	ca, cert, key := query.Get("tls_ca"), query.Get("tls_cert"), query.Get("tls_key")
	if ca+cert+key == "" {
		return nil, nil
	}
	if query.Has("tls") && query.Get("tls") != "true" {
		return nil, errors.New("tls_ca, tls_cert and tls_key need tls=true, or no tls")
	}
	for _, name := range []string{"tls", "tls_ca", "tls_cert", "tls_key"} {
		query.Del(name)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls_ca: %s holds no certificate", ca)
		}
	}
	if cert+key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert and tls_key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
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
