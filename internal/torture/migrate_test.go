package torture

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/failpoint"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// A migration may be killed after any of its statements: the next one finishes it, and
// every message that waited is still there. Beside the table that is migrated there is
// one that is in use; they share tables.
func TestAMigrationMayBeKilledAnywhere(t *testing.T) {
	long(t)
	program := buildProgram(t)
	for name, open := range map[string]func(*testing.T) migrated{
		"sqlite":            migratedSQLite,
		"postgres":          migratedPostgres,
		"postgres/verbatim": migratedVerbatim,
		"mariadb":           migratedMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := 0
			for killAt(t, program, open(t), kills+1) {
				kills++
			}
			if kills < 3 {
				t.Errorf("killed at %d places, want more: does %q not exist?", kills, failpoint.Migrating)
			}
		})
	}
}

// migrated is a database with a table that is in use.
type migrated struct {
	dsn  string
	up   []string // further arguments of migrate up
	want []uuid.UUID
}

const messagesInUse = 5

// killAt kills the nth statement's migration and looks what is left. It reports whether
// there were that many statements.
func killAt(t *testing.T, program Program, m migrated, n int) bool {
	t.Helper()
	up := append([]string{"migrate", "up", "--table", "new_outbox"}, m.up...)
	killed, out := m.run(t, program, fmt.Sprintf("%s=kill@%d", failpoint.Migrating, n), up...)
	if killed {
		if again, text := m.run(t, program, "", up...); again {
			t.Fatalf("after %d statements, migrating again: %s", n, text)
		}
	}
	file := filepath.Join(t.TempDir(), "delivered")
	_, out2 := m.run(t, program, "", "relay", "--once", "--tables", "used_outbox,new_outbox", "--sink", "file:"+file)
	delivered, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("after %d statements: %v\n%s\n%s", n, err, out, out2)
	}
	for _, event := range m.want {
		if strings.Count(string(delivered), event.String()) == 0 {
			t.Errorf("after %d statements: %s is lost\n%s", n, event, out2)
		}
	}
	return killed
}

// run runs the program and fails the test if it ends otherwise than well or by SIGKILL.
func (m *migrated) run(t *testing.T, program Program, armed string, args ...string) (killed bool, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program.Path, args...)
	cmd.Env = append(os.Environ(), "OUTBOX_DSN="+m.dsn, failpoint.Variable+"="+armed)
	text, err := cmd.CombinedOutput()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	if err != nil && !killed {
		t.Fatalf("outbox %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return killed, string(text)
}

type enqueuer interface {
	Migrate(ctx context.Context) ([]int, error)
	EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error)
}

// use makes a table and lets messages wait there.
func (m *migrated) use(t *testing.T, store enqueuer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range messagesInUse {
		m.want = append(m.want, uuid.New())
		msg := outbox.Message{Topic: "shop.order.placed.v1", EventID: m.want[len(m.want)-1], Payload: []byte(`{"n":1}`)}
		if _, err := store.EnqueueAutocommit(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
}

func migratedSQLite(t *testing.T) migrated {
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m := migrated{dsn: "sqlite:" + path}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "used_outbox"})
	m.use(t, store, err)
	return m
}

func migratedPostgres(t *testing.T) migrated {
	m, _ := usedPostgres(t)
	return m
}

func usedPostgres(t *testing.T) (migrated, *pgxpool.Pool) {
	t.Helper()
	pg := testenv.Postgres(t)
	m, pool := migrated{dsn: pg.DSN()}, pg.Pool(t)
	store, err := pgstore.New(pool, pgstore.Config{Table: "used_outbox"})
	m.use(t, store, err)
	return m, pool
}

// migratedVerbatim is a database with a table of another tool, in which messages wait
// that the migration has to carry over.
func migratedVerbatim(t *testing.T) migrated {
	m, pool := usedPostgres(t)
	m.up = []string{"--full"}
	_, err := pool.Exec(t.Context(), `CREATE TABLE new_outbox (
		id UUID PRIMARY KEY DEFAULT gen_random_uuid(), tenant_id UUID NOT NULL, topic TEXT NOT NULL, payload JSONB NOT NULL,
		event_id UUID NOT NULL UNIQUE, sequence BIGSERIAL NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
		published_at TIMESTAMPTZ NULL, attempts INT NOT NULL DEFAULT 0, available_at TIMESTAMPTZ NOT NULL DEFAULT now(),
		locked_at TIMESTAMPTZ NULL, last_error TEXT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	for range messagesInUse {
		m.want = append(m.want, uuid.New())
		if _, err := pool.Exec(t.Context(), `INSERT INTO new_outbox (tenant_id, topic, payload, event_id) VALUES ($1, 'shop.order.placed.v1', '{}', $2)`,
			uuid.New(), m.want[len(m.want)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func migratedMariaDB(t *testing.T) migrated {
	db := testenv.MySQL(t)
	cfg, err := driver.ParseDSN(db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	dsn := url.URL{Scheme: "mysql", User: url.UserPassword(cfg.User, cfg.Passwd), Host: cfg.Addr, Path: cfg.DBName}
	m := migrated{dsn: dsn.String()}
	store, err := mysqlstore.New(db.Open(t, "parseTime=true"), mysqlstore.Config{Table: "used_outbox"})
	m.use(t, store, err)
	return m
}
