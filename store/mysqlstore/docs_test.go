package mysqlstore_test

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestTheCodeOfTheDocsIsTheCompiledExample(t *testing.T) {
	page, example := file(t, "../../docs/mysql.md"), file(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("there is none")
	}
	for _, b := range blocks {
		if !strings.Contains(example, b[1]) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheExampleEnqueues(t *testing.T) {
	store, db := newMigrated(t)
	mustExec(t, db, "CREATE TABLE orders (id BIGINT PRIMARY KEY)")

	if err := placeOrder(t.Context(), db, store, 7); err != nil {
		t.Fatal(err)
	}

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})
	if len(page.Fresh) != 1 || page.Fresh[0].Key != "order-7" {
		t.Errorf("%d messages", len(page.Fresh))
	}
}

// The grants of the docs are enough, and a producer can do no more than enqueue.
func TestTheGrantsOfTheDocsAreEnough(t *testing.T) {
	m := testenv.MySQL(t)
	admin := m.Open(t)
	migrated(t, newStore(t, admin))
	producer, relayer := asUser(t, m, admin, "producer"), asUser(t, m, admin, "relay")
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(file(t, "../../docs/mysql.md"))
	if block == nil {
		t.Fatal("the docs have no grants")
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		statement = strings.NewReplacer("shop.", "", "'producer'", producer.user, "'relay'", relayer.user).Replace(statement)
		mustExec(t, admin, statement)
	}

	msg := message("a")
	msg.EventID = uuid.New()
	for range 2 { // the second is a duplicate
		if _, err := newStore(t, producer.db).EnqueueAutocommit(t.Context(), msg); err != nil {
			t.Errorf("producer: %v", err)
		}
	}
	for _, statement := range []string{"UPDATE shop_outbox SET topic = 'x'", "DELETE FROM shop_outbox", "SELECT * FROM shop_outbox_lease"} {
		if _, err := producer.db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("a producer may %s", statement)
		}
	}
	store := newStore(t, relayer.db)
	lease := acquire(t, store, "one")
	page := read(t, lease, outbox.ReadRequest{Limit: 10})
	for _, step := range []outbox.Step{
		{Record: []outbox.Batch{{No: 1, IDs: []int64{page.Last}}}},
		{Outcomes: []outbox.Outcome{{Sequence: page.Last, Kind: outbox.Retry, Spent: 1, Error: "refused"}}},
		{Outcomes: []outbox.Outcome{{Sequence: page.Last, Attempts: 1, Spent: 1}}, Done: []int64{1}},
	} {
		if err := lease.Step(t.Context(), step); err != nil {
			t.Errorf("relay: %v", err)
		}
	}
	if _, err := lease.Renew(t.Context(), outbox.Renewal{}); err != nil {
		t.Errorf("relay: %v", err)
	}
	if err := store.Resize(t.Context(), 1); err != nil {
		t.Errorf("relay: %v", err)
	}
	if _, err := store.Heartbeat(t.Context(), outbox.Member{Instance: "one"}); err != nil {
		t.Errorf("relay: %v", err)
	}
	if _, err := store.Purge(t.Context(), outbox.PurgeRequest{Limit: 10}); err != nil {
		t.Errorf("relay: %v", err)
	}
	if _, err := store.Stats(t.Context()); err != nil {
		t.Errorf("relay: %v", err)
	}
	if _, err := store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbTrigger, Actor: "ada", Reason: "a test"}); err != nil {
		t.Errorf("relay: %v", err)
	}
}

type login struct {
	user string
	db   *sql.DB
}

// asUser makes a user without any right and logs in.
func asUser(t *testing.T, m *testenv.MySQLDB, admin *sql.DB, name string) login {
	t.Helper()
	name += "_" + uuid.NewString()[:8]
	mustExec(t, admin, "CREATE USER "+name)
	t.Cleanup(func() {
		db, err := sql.Open("mysql", m.DSN())
		if err != nil {
			t.Error(err)
			return
		}
		defer db.Close()
		if _, err := db.Exec("DROP USER " + name); err != nil {
			t.Error(err)
		}
	})
	cfg, err := mysql.ParseDSN(m.DSN())
	if err != nil {
		t.Fatal(err)
	}
	cfg.User = name
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return login{name, db}
}
