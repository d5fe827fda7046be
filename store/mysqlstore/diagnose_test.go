package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

func diagnose(t *testing.T, store *mysqlstore.Store, long time.Duration) string {
	t.Helper()
	var b strings.Builder
	err := store.DiagnoseWithin(t.Context(), long, func(name, level, text, fix string) {
		fmt.Fprintf(&b, "%s %s: %s | %s\n", name, level, text, fix)
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiagnoseFindsWhatIsWrongAndHowToMendIt(t *testing.T) {
	store, db := newMigrated(t)
	if got := diagnose(t, store, time.Hour); strings.Contains(got, " error: ") || !strings.Contains(got, "engine ok") || !strings.Contains(got, "indexes ok") {
		t.Errorf("a sound table has findings:\n%s", got)
	}
	tests := []struct{ name, wrong, want, mend string }{
		{
			"an index is missing", `DROP INDEX shop_outbox_held ON shop_outbox`,
			"indexes error: the index shop_outbox_held is missing | create it", `CREATE INDEX shop_outbox_held ON shop_outbox (held, sequence)`,
		},
		{
			"an engine without transactions", `ALTER TABLE shop_outbox ENGINE = Aria`,
			"engine error: the engine of the table is Aria: what is rolled back stays | ALTER TABLE", `ALTER TABLE shop_outbox ENGINE = InnoDB`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := db.ExecContext(t.Context(), tt.wrong); err != nil {
				t.Fatal(err)
			}
			if got := diagnose(t, store, time.Hour); !strings.Contains(got, tt.want) {
				t.Errorf("want %q, got\n%s", tt.want, got)
			}
			if _, err := db.ExecContext(t.Context(), tt.mend); err != nil {
				t.Fatal(err)
			}
			if got := diagnose(t, store, time.Hour); strings.Contains(got, tt.want) {
				t.Errorf("still found after it was mended:\n%s", got)
			}
		})
	}
}

// It has a server of its own: the oldest of others' transactions are named first, and
// the server shows what it knew up to 100 ms ago to whoever asks often.
func TestDiagnoseFindsLongTransactions(t *testing.T) {
	db := testenv.PrivateMySQL(t).Open(t)
	store := newStore(t, db)
	migrated(t, store)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var connection int64
	if err := tx.QueryRowContext(t.Context(), `SELECT CONNECTION_ID() FROM shop_outbox_lease FOR UPDATE`).Scan(&connection); err != nil {
		t.Fatal(err)
	}
	if got, want := diagnose(t, store, 0), fmt.Sprintf("KILL %d", connection); !strings.Contains(got, "transactions warning") || !strings.Contains(got, want) {
		t.Errorf("want %s, got\n%s", want, got)
	}
	if got := diagnose(t, store, time.Hour); !strings.Contains(got, "transactions ok") {
		t.Errorf("an ordinary transaction was found:\n%s", got)
	}
}
