package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox"
)

func TestADuplicateIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		event := uuid.New()
		if first, second := f.deliver(t, "billing", event), f.deliver(t, "billing", event); !first || second {
			t.Errorf("the first delivery ran: %v, the second: %v", first, second)
		}
		if !f.deliver(t, "mailing", event) || !f.deliver(t, "billing", uuid.New()) {
			t.Error("another consumer or another event was taken for a duplicate")
		}
		if n := f.count(t, `SELECT COUNT(*) FROM effect`); n != 3 {
			t.Errorf("%d effects, want 3", n)
		}
	})
}

func TestAHandlerThatFailsLeavesNoMarkEvenIfTheCallerCommits(t *testing.T) {
	broken := errors.New("broken")
	each(t, func(t *testing.T, f fixture) {
		event := uuid.New()
		for _, fail := range []func(work) error{
			func(work) error { return broken },
			func(w work) error { return w.exec(t.Context(), `INSERT INTO nowhere VALUES (1)`) },
		} {
			w := f.mustBegin(t)
			ran, err := w.once(t.Context(), "billing", event, func() error {
				if err := w.exec(t.Context(), effect(event)); err != nil {
					return err
				}
				return fail(w)
			})
			if ran || err == nil {
				t.Errorf("got %v, %v", ran, err)
			}
			if err := w.commit(t.Context()); err == nil {
				t.Error("the transaction could be committed")
			}
		}
		if n := f.count(t, `SELECT COUNT(*) FROM effect`) + f.count(t, `SELECT COUNT(*) FROM inbox`); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if !f.deliver(t, "billing", event) {
			t.Error("the redelivery was skipped")
		}
	})
}

func TestAHandlerThatPanicsLeavesNoMark(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		event := uuid.New()
		w := f.mustBegin(t)
		func() {
			defer func() {
				if recover() != "crash" {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = w.once(t.Context(), "billing", event, func() error { panic("crash") })
		}()
		if err := w.commit(t.Context()); err == nil {
			t.Error("the transaction could be committed")
		}
		if !f.deliver(t, "billing", event) {
			t.Error("the redelivery was skipped")
		}
	})
}

func TestAConcurrentDuplicateWaitsForTheFirst(t *testing.T) {
	for _, first := range []string{"commits", "rolls back"} {
		t.Run("which "+first, func(t *testing.T) {
			each(t, func(t *testing.T, f fixture) {
				event := uuid.New()
				w := f.mustBegin(t)
				if ran, err := w.once(t.Context(), "billing", event, func() error { return nil }); err != nil || !ran {
					t.Fatal(ran, err)
				}
				second := make(chan bool, 1)
				go func() { second <- f.deliver(t, "billing", event) }()
				select {
				case <-second:
					t.Error("the second did not wait")
				case <-time.After(50 * time.Millisecond): // long enough to have been wrong, now and then
				}
				end := w.commit
				if first == "rolls back" {
					end = w.rollback
				}
				if err := end(t.Context()); err != nil {
					t.Fatal(err)
				}
				if ran := <-second; ran != (first == "rolls back") {
					t.Errorf("the second ran: %v", ran)
				}
			})
		})
	}
}

func TestABatchHandlesWhatIsNewOnceAndInOrder(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		a, b, c, d := uuid.New(), uuid.New(), uuid.New(), uuid.New()
		f.deliver(t, "billing", b)
		many := func(events ...uuid.UUID) (fresh []uuid.UUID) {
			w := f.mustBegin(t)
			n, err := w.many(t.Context(), "billing", events, func(f []uuid.UUID) error { fresh = f; return nil })
			if err != nil || n != len(fresh) {
				t.Fatalf("handled %d of %d: %v", n, len(fresh), err)
			}
			if err := w.commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			return fresh
		}
		for _, step := range []struct{ events, want []uuid.UUID }{
			{[]uuid.UUID{c, b, a, c}, []uuid.UUID{c, a}},
			{[]uuid.UUID{a, b, c}, nil},
			{[]uuid.UUID{d}, []uuid.UUID{d}},
			{nil, nil},
		} {
			if got := many(step.events...); !slices.Equal(got, step.want) {
				t.Errorf("of %v it handled %v, want %v", step.events, got, step.want)
			}
		}
	})
}

func TestALargeBatchWorks(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		events := make([]uuid.UUID, 2500)
		for i := range events {
			events[i] = uuid.New()
		}
		for i := range 10 {
			f.deliver(t, "billing", events[i*250])
		}
		w := f.mustBegin(t)
		n, err := w.many(t.Context(), "billing", events, func([]uuid.UUID) error { return nil })
		if err != nil || n != 2490 {
			t.Errorf("handled %d: %v", n, err)
		}
		if err := w.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// The snapshot of a transaction that has read before is older than the marks of others.
func TestABatchInAnOldSnapshotFindsWhatWasMarkedSince(t *testing.T) {
	f := openMySQL(t)
	if _, err := f.box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.must(t, `CREATE TABLE effect (event_id varchar(36) NOT NULL)`)
	known, fresh := uuid.New(), uuid.New()
	w := f.mustBegin(t)
	if err := w.exec(t.Context(), `SELECT COUNT(*) FROM inbox`); err != nil {
		t.Fatal(err)
	}
	f.deliver(t, "billing", known)
	n, err := w.many(t.Context(), "billing", []uuid.UUID{known, fresh}, func(got []uuid.UUID) error {
		if !slices.Equal(got, []uuid.UUID{fresh}) {
			t.Errorf("it handled %v", got)
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("handled %d: %v", n, err)
	}
	if err := w.commit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestABatchThatFailsLeavesNoMarks(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		events := []uuid.UUID{uuid.New(), uuid.New()}
		w := f.mustBegin(t)
		n, err := w.many(t.Context(), "billing", events, func([]uuid.UUID) error { return errors.New("broken") })
		if n != 0 || err == nil || w.commit(t.Context()) == nil {
			t.Errorf("got %d, %v, or it was committed", n, err)
		}
		if n := f.count(t, `SELECT COUNT(*) FROM inbox`); n != 0 {
			t.Errorf("%d marks are left", n)
		}
	})
}

func TestCleanRemovesWhatIsOlderThanTheRetention(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		old := make([]uuid.UUID, 2300)
		for i := range old {
			old[i] = uuid.New()
		}
		w := f.mustBegin(t)
		if _, err := w.many(t.Context(), "billing", old, func([]uuid.UUID) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := w.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.must(t, f.age)
		young := uuid.New()
		f.deliver(t, "billing", young)

		if n, err := f.box.Clean(t.Context(), 2*time.Hour); n != 0 || err != nil {
			t.Errorf("it removed %d within the retention, %v", n, err)
		}
		if n, err := f.box.Clean(t.Context(), 30*time.Minute); n != 2300 || err != nil {
			t.Errorf("it removed %d, %v", n, err)
		}
		if f.deliver(t, "billing", young) || !f.deliver(t, "billing", old[0]) {
			t.Error("the wrong marks are left")
		}
		if _, err := f.box.Clean(t.Context(), 0); !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("a retention of nothing: %v", err)
		}
	})
}

func TestMigrateMayRunTwiceAndTheSchemaIsChecked(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			f := b.open(t)
			if err := f.box.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), "call Migrate") {
				t.Errorf("without a table: %v", err)
			}
			var errs [4]error
			var applied [4][]int
			done := make(chan struct{})
			for i := range errs {
				go func() { applied[i], errs[i] = f.box.Migrate(t.Context()); done <- struct{}{} }()
			}
			for range errs {
				<-done
			}
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			if all := slices.Concat(applied[:]...); !slices.Equal(all, []int{1}) {
				t.Errorf("applied %v between them", all)
			}
			if err := f.box.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
			f.must(t, `INSERT INTO outbox_migration (table_name, version, name) VALUES ('inbox', 2, 'later')`)
			if err := f.box.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) {
				t.Errorf("with a newer table: %v", err)
			}
		})
	}
}

func TestPrintedMigrationsDoWhatMigrateDoes(t *testing.T) {
	f := openSQLite(t)
	box, err := inbox.New(f.db, inbox.SQLite, inbox.Config{Table: "inbox"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]int{{0, 1}, {1, 0}, {0, 1}} {
		var b strings.Builder
		if err := box.PrintMigrations(&b, "sql", step[0], step[1]); err != nil {
			t.Fatal(err)
		}
		f.must(t, b.String())
	}
	if err := box.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOnceIsOneStatement(t *testing.T) {
	f := openSQLite(t)
	box, err := inbox.New(f.db, inbox.SQLite, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := uuid.New()
	for _, want := range []bool{true, false} {
		tx, err := f.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		counted := &counter{Tx: tx}
		if ran, err := box.Once(t.Context(), counted, "billing", event, func() error { return nil }); err != nil || ran != want {
			t.Fatal(ran, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if counted.n != 1 {
			t.Errorf("%d statements", counted.n)
		}
	}
}

// Deliveries of one event that wait for a handler which then fails: on InnoDB that is
// where a plain INSERT deadlocks.
func TestManyDuplicatesOfAFailingHandlerDoNotDeadlock(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const copies, events = 6, 50
		var wg sync.WaitGroup
		next := make(chan uuid.UUID)
		errs := make([]error, copies)
		for i := range copies {
			wg.Go(func() {
				n := 0
				for event := range next {
					n++
					crash := ""
					if (n+i)%2 == 0 {
						crash = "rollback"
					}
					if _, err := handle(t.Context(), f, []uuid.UUID{event}, crash); err != nil && !errors.Is(err, errCrash) {
						errs[i] = err
					}
				}
			})
		}
		for range events {
			event := uuid.New()
			for range copies {
				next <- event
			}
		}
		close(next)
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		if n, distinct := f.count(t, `SELECT COUNT(*) FROM effect`), f.count(t, `SELECT COUNT(DISTINCT event_id) FROM effect`); n != distinct {
			t.Errorf("%d effects of %d events", n, distinct)
		}
	})
}

// A counter counts statements.
type counter struct {
	*sql.Tx
	n int
}

func (c *counter) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.n++
	return c.Tx.ExecContext(ctx, query, args...)
}

func (c *counter) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.n++
	return c.Tx.QueryContext(ctx, query, args...)
}

func TestAHandleIsNoTransaction(t *testing.T) {
	tx := reflect.TypeFor[inbox.Tx]()
	if !reflect.TypeFor[*sql.Tx]().Implements(tx) {
		t.Error("a *sql.Tx is none")
	}
	for _, handle := range []reflect.Type{reflect.TypeFor[*sql.DB](), reflect.TypeFor[*sql.Conn]()} {
		if handle.Implements(tx) {
			t.Errorf("a %s passes for a transaction", handle)
		}
	}
}

func TestBadInputIsRefusedBeforeSQL(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		w := f.mustBegin(t)
		never := func() error { t.Error("it ran"); return nil }
		for _, consumer := range []string{"", " ", "a b", "ü", strings.Repeat("a", 101), "a\x00"} {
			if _, err := w.once(t.Context(), consumer, uuid.New(), never); !errors.Is(err, outbox.ErrInvalidConfig) {
				t.Errorf("consumer %q: %v", consumer, err)
			}
		}
		if _, err := w.once(t.Context(), "billing", uuid.Nil, never); !errors.Is(err, outbox.ErrInvalidMessage) {
			t.Errorf("no event id: %v", err)
		}
		if _, err := w.many(t.Context(), "billing", []uuid.UUID{uuid.New(), uuid.Nil}, nil); !errors.Is(err, outbox.ErrInvalidMessage) {
			t.Errorf("no event id in a batch: %v", err)
		}
		if _, err := w.once(t.Context(), "billing", uuid.New(), func() error { return nil }); err != nil {
			t.Errorf("the transaction is not usable: %v", err)
		}
		if err := w.commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Without its stripe nothing is inserted, which must not look like a duplicate.
func TestAMissingStripeIsAnError(t *testing.T) {
	f := openMySQL(t)
	if _, err := f.box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.must(t, `DELETE FROM inbox_stripe`)
	w := f.mustBegin(t)
	defer func() { _ = w.rollback(t.Context()) }()
	if ran, err := w.once(t.Context(), "billing", uuid.New(), func() error { return nil }); ran || !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("got %v, %v", ran, err)
	}
	if n, err := w.many(t.Context(), "billing", []uuid.UUID{uuid.New()}, func([]uuid.UUID) error { return nil }); n != 0 || !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("got %v, %v", n, err)
	}
}

func TestAnInboxNeedsAHandleADialectAndATable(t *testing.T) {
	db := openSQLite(t).db
	for name, err := range map[string]error{
		"dialect": func() error { _, err := inbox.New(db, "oracle", inbox.Config{}); return err }(),
		"db":      func() error { _, err := inbox.New(nil, inbox.SQLite, inbox.Config{}); return err }(),
		"table":   func() error { _, err := inbox.New(db, inbox.SQLite, inbox.Config{Table: `x"; drop`}); return err }(),
		"schema":  func() error { _, err := inbox.New(db, inbox.SQLite, inbox.Config{Table: `a.b`}); return err }(),
	} {
		if !errors.Is(err, outbox.ErrInvalidConfig) && !errors.Is(err, outbox.ErrInvalidTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
