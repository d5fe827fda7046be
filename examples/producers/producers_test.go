package producers_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// A language is one that producers are written in.
type language struct {
	name    string
	program func(t *testing.T) *exec.Cmd
}

var languages = []language{
	{"python", func(t *testing.T) *exec.Cmd { return exec.Command(testenv.Python(t), "producer.py") }},
	{"node", func(t *testing.T) *exec.Cmd {
		cmd := testenv.Node(t)
		cmd.Args = append(cmd.Args, "producer.mjs")
		return cmd
	}},
}

// produce runs a producer twice: what it wrote with an id of its own stays one event.
func (l language) produce(t *testing.T, database string) {
	t.Helper()
	for range 2 {
		cmd := l.program(t)
		cmd.Args = append(cmd.Args, database)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", l.name, err, out)
		}
	}
}

func TestTheRelayDeliversWhatOtherLanguagesWroteToSQLite(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "shop.db")
			db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.produce(t, file)
			check(t, store, l.name)
		})
	}
}

func TestTheRelayDeliversWhatOtherLanguagesWroteToPostgres(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			pg := testenv.Postgres(t)
			store, err := pgstore.New(pg.Pool(t), pgstore.Config{Table: "shop_outbox"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.produce(t, pg.DSN())
			check(t, store, l.name)
		})
	}
}

// check delivers what two runs of a producer left and compares it with what they meant.
func check(t *testing.T, store outbox.Store, source string) {
	t.Helper()
	var mu sync.Mutex
	var got []outbox.DispatchedMessage
	r, err := relay.New(store, outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
		mu.Lock()
		defer mu.Unlock()
		m.Payload = slices.Clone(m.Payload)
		got = append(got, m)
		return nil
	}), relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.PublishPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b outbox.DispatchedMessage) int { return cmp.Compare(a.Meta.Sequence, b.Meta.Sequence) })
	var lines []string
	for _, m := range got {
		if m.Meta.EventID == uuid.Nil || m.Meta.EventVersion != 1 {
			t.Errorf("event %s has version %d", m.Meta.EventID, m.Meta.EventVersion)
		}
		payload := strings.ReplaceAll(string(m.Payload), " ", "")
		lines = append(lines, fmt.Sprintf("%s %s %s %s", m.Meta.Topic, m.Meta.Key, m.Meta.Headers["source"], payload))
	}
	once := []string{
		"shop.order.placed.v1 order-1 " + source + ` {"order":"order-1","total":100}`,
		"shop.order.placed.v1 order-2 " + source + ` {"order":"order-2","total":250}`,
		`shop.order.paid.v1 order-2  {"order":"order-2"}`,
	}
	want := slices.Concat(once, []string{"shop.order.placed.v1 order-3 " + source + ` {"order":"order-3","total":300}`}, once)
	if !slices.Equal(lines, want) {
		t.Errorf("delivered:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
