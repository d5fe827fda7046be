package testenv

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPgBouncerPoolsByTransaction(t *testing.T) {
	direct := Postgres(t).DSN()
	pooled := PgBouncer(t, direct)
	mustExec(t, direct, "CREATE TABLE seen (id int)")

	config, err := pgx.ParseConfig(pooled)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	backend := func() (pid int) {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		// Still open for the next one, which gets the same server connection.
		t.Cleanup(func() { conn.Close(t.Context()) })
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM (SELECT count(*) FROM seen) s").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}

	if first, second := backend(), backend(); first != second {
		t.Errorf("two idle clients hold two server connections (%d, %d): not transaction pooling", first, second)
	}
}
