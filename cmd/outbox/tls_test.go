package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox/internal/testenv"
)

// migrateOver says whether a database can be reached over the parameters of a DSN.
func migrateOver(t *testing.T, dsn string) error {
	t.Helper()
	if code, errs := runArgs(t, []string{"migrate", "up", "--dsn", dsn, "--table", "shop_outbox"}); code != exitOK {
		return fmt.Errorf("exit %d: %s", code, errs)
	}
	return nil
}

func TestADatabaseIsVerifiedAsTheDSNAsks(t *testing.T) {
	ours, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	client := func(cert, key string) string {
		return "&" + cert + "=" + ours.ClientCert + "&" + key + "=" + ours.ClientKey
	}
	for _, tt := range []struct {
		name    string
		server  func(t *testing.T) string // its DSN, up to the parameters
		arrives []string
		fails   []string
	}{
		{
			"postgres", func(t *testing.T) string { return tlsPostgres(t, ours) },
			[]string{
				"sslmode=verify-full&sslrootcert=" + ours.CA,
				"sslmode=verify-full&sslrootcert=" + ours.CA + client("sslcert", "sslkey"),
			},
			[]string{"sslmode=verify-full", "sslmode=verify-full&sslrootcert=" + others.CA},
		},
		{
			"mysql", func(t *testing.T) string { return tlsMySQL(t, ours) },
			[]string{"tls_ca=" + ours.CA, "tls=true&tls_ca=" + ours.CA + client("tls_cert", "tls_key")},
			[]string{"tls=true", "tls_ca=" + others.CA},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := tt.server(t)
			for _, query := range tt.arrives {
				if err := migrateOver(t, server+query); err != nil {
					t.Errorf("%s: %v", query, err)
				}
			}
			for _, query := range tt.fails {
				if err := migrateOver(t, server+query); err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("%s: got %v, want a certificate that is not trusted", query, err)
				}
			}
		})
	}
}

func tlsPostgres(t *testing.T, c *testenv.Certificates) string {
	server := testenv.PrivatePostgres(t, "ssl=on", "ssl_cert_file="+c.ServerCert, "ssl_key_file="+c.ServerKey, "ssl_ca_file="+c.CA)
	return strings.TrimSuffix(server.DSN(), "sslmode=disable")
}

func tlsMySQL(t *testing.T, c *testenv.Certificates) string {
	server := testenv.PrivateMySQL(t, "ssl-cert="+c.ServerCert, "ssl-key="+c.ServerKey, "ssl-ca="+c.CA, "require-secure-transport=off")
	cfg, err := driver.ParseDSN(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "mysql", User: url.User(cfg.User), Host: cfg.Addr, Path: "/" + cfg.DBName}).String() + "?"
}

func TestFilesOfAMySQLDSNAreLookedAt(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"tls_ca=/does/not/exist":          "tls_ca: open /does/not/exist",
		"tls_ca=" + empty:                 "holds no certificate",
		"tls_cert=" + empty:               "tls_cert and tls_key",
		"tls=skip-verify&tls_ca=" + empty: "need tls=true",
	} {
		if _, err := mysqlConfig("mysql://u@h/d?" + query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", query, err, want)
		}
	}
}
