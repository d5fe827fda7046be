package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// grant makes the five roles and gives them what PrintGrants says. as opens the store
// as one of them.
func grant(t *testing.T, env *testenv.PG, owner *pgstore.Store) (roles pgstore.Roles, as func(name string) (*pgstore.Store, *pgxpool.Pool)) {
	t.Helper()
	admin := env.Pool(t)
	role := func(name string) string { return fmt.Sprintf("%s_%s_%d", name, owner.Table(), os.Getpid()) }
	roles = pgstore.Roles{Producer: role("producer"), Relay: role("relay"), Cleaner: role("cleaner"), Viewer: role("viewer"), Operator: role("operator")}
	for _, name := range []string{roles.Producer, roles.Relay, roles.Cleaner, roles.Viewer, roles.Operator} {
		exec(t, admin, "CREATE ROLE "+name)
		t.Cleanup(func() {
			for _, drop := range []string{"DROP OWNED BY ", "DROP ROLE "} {
				if _, err := admin.Exec(context.Background(), drop+name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var grants strings.Builder
	if err := owner.PrintGrants(t.Context(), &grants, roles); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), grants.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return roles, func(name string) (*pgstore.Store, *pgxpool.Pool) {
		cfg, err := pgxpool.ParseConfig(env.DSN())
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig.RuntimeParams["role"] = name
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return openStore(t, pool, pgstore.Config{Table: owner.Table()}), pool
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func denied(t *testing.T, pool *pgxpool.Pool, query string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), query, pgx.QueryExecModeExec)
	if e, is := errors.AsType[*pgconn.PgError](err); !is || e.Code != "42501" {
		t.Errorf("%s: got %v, want permission denied", query, err)
	}
}

func TestEachRoleCanDoItsWorkAndNoMore(t *testing.T) {
	env := testenv.Postgres(t)
	admin := env.Pool(t)
	roles, as := grant(t, env, newStore(t, admin, pgstore.Config{Table: "grant_outbox"}))
	ok := func(err error) { t.Helper(); must(t, err) }
	denied := func(pool *pgxpool.Pool, query string) { t.Helper(); denied(t, pool, query) }

	producer, producers := as(roles.Producer)
	msg := message("a")
	msg.EventID = uuid.New()
	id, err := producer.EnqueueAutocommit(t.Context(), msg)
	ok(err)
	again, err := producer.EnqueueAutocommit(t.Context(), msg)
	ok(err)
	if again != id {
		t.Errorf("the duplicate has sequence %d, want %d", again, id)
	}
	ok(pgx.BeginFunc(t.Context(), producers, func(tx pgx.Tx) error {
		_, err := producer.EnqueueMany(t.Context(), tx, []outbox.Message{msg, message("b")})
		return err
	}))
	denied(producers, `UPDATE grant_outbox SET attempts = 0`)
	denied(producers, `DELETE FROM grant_outbox`)
	denied(producers, `SELECT last_error FROM grant_outbox`)

	relay, relays := as(roles.Relay)
	_, err = relay.Heartbeat(t.Context(), outbox.Member{Instance: "r", TTL: time.Minute})
	ok(err)
	lease := acquire(t, relay)
	if n := count(t, admin, `SELECT count(system_id) FROM grant_outbox_lease`); n != 1 {
		t.Error("the relay's role cannot tell a restored database")
	}
	_, err = lease.Recover(t.Context())
	ok(err)
	_, err = lease.Heads(t.Context(), 0, 10)
	ok(err)
	if n := len(read(t, lease)); n != 2 {
		t.Errorf("the relay reads %d messages, want 2", n)
	}
	ok(lease.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: []int64{id}}}}))
	ok(lease.Step(t.Context(), outbox.Step{Done: []int64{1}, Outcomes: []outbox.Outcome{{Sequence: id, Kind: outbox.Dead, Reason: "x", Spent: 1}}}))
	_, err = lease.Renew(t.Context(), outbox.Renewal{})
	ok(err)
	ok(lease.Release(t.Context(), 0))
	ok(relay.Resize(t.Context(), 2))
	denied(relays, `INSERT INTO grant_outbox (topic, payload) VALUES ('x', '1')`)
	denied(relays, `DELETE FROM outbox_audit`)

	operator, operators := as(roles.Operator)
	_, err = operator.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReplay, EventID: msg.EventID, Actor: "me", Reason: "test"})
	ok(err)
	for _, a := range []outbox.Action{
		{Verb: outbox.VerbDiscard, EventID: msg.EventID},
		{Verb: outbox.VerbReplay, EventID: msg.EventID},
		{Verb: outbox.VerbPause, Route: "main"},
		{Verb: outbox.VerbResume, Route: "main"},
		{Verb: outbox.VerbTrigger},
	} {
		a.Actor, a.Reason = "me", "test"
		_, err = operator.Apply(t.Context(), a)
		ok(err)
	}
	lease = acquire(t, relay)
	_, err = operator.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReleaseLease, Shard: lease.Info().Shard, Actor: "me", Reason: "test"})
	ok(err)
	exec(t, admin, `UPDATE grant_outbox SET dead_at = now(), dead_reason = 'attempts' WHERE sequence = $1`, id)
	for _, verb := range []outbox.Verb{outbox.VerbDiscard, outbox.VerbPurge} {
		f := outbox.Filter{Status: outbox.StatusDead, Until: time.Now().Add(time.Hour)}
		if verb == outbox.VerbPurge {
			f.Status = outbox.StatusDiscarded
		}
		job, err := operator.StartJob(t.Context(), outbox.JobRequest{Verb: verb, Filter: f, Expect: 1, Actor: "me", Reason: "test"})
		ok(err)
		_, err = operator.StepJob(t.Context(), job.ID, "me")
		ok(err)
	}
	ok(relay.Record(t.Context(), outbox.AuditEntry{Actor: "r", Verb: outbox.VerbCircuitOpen, Route: "main"}))
	_, err = producer.EnqueueAutocommit(t.Context(), msg)
	ok(err)
	id = int64(count(t, admin, `SELECT max(sequence) FROM grant_outbox`))
	denied(operators, `UPDATE outbox_audit SET actor = 'you'`)
	denied(operators, `UPDATE grant_outbox SET payload = '1'`)

	viewer, viewers := as(roles.Viewer)
	_, err = viewer.Stats(t.Context())
	ok(err)
	_, err = viewer.List(t.Context(), outbox.Filter{Status: outbox.StatusPending})
	ok(err)
	_, err = viewer.Groups(t.Context(), outbox.Filter{})
	ok(err)
	_, err = viewer.Tenants(t.Context(), 10)
	ok(err)
	_, err = viewer.Keys(t.Context(), 0, 10)
	ok(err)
	_, err = viewer.Jobs(t.Context(), 10)
	ok(err)
	_, err = viewer.Audit(t.Context(), outbox.AuditFilter{})
	ok(err)
	denied(viewers, `UPDATE grant_outbox SET attempts = 0`)

	cleaner, cleaners := as(roles.Cleaner)
	exec(t, admin, `UPDATE grant_outbox SET published_at = now() - interval '1 day' WHERE sequence = $1`, id)
	exec(t, admin, `UPDATE grant_outbox SET dead_at = now() - interval '1 day' WHERE sequence <> $1`, id)
	purged, err := cleaner.Purge(t.Context(), outbox.PurgeRequest{Published: time.Hour, Dead: time.Hour, Limit: 10})
	ok(err)
	if purged.Published != 1 || purged.Dead != 1 {
		t.Errorf("purged %+v, want one of each", purged)
	}
	denied(cleaners, `UPDATE grant_outbox SET published_at = now()`)
}

func TestEachRoleCanDoItsWorkOnTheVerbatimLayout(t *testing.T) {
	env := testenv.Postgres(t)
	admin := env.Pool(t)
	verbatim(t, admin, "granted_outbox", ", traceparent TEXT, tracestate TEXT")
	roles, as := grant(t, env, newStore(t, admin, pgstore.Config{Table: "granted_outbox"}))
	ok := func(err error) { t.Helper(); must(t, err) }
	act := func(s *pgstore.Store, verb outbox.Verb, id uuid.UUID) {
		t.Helper()
		_, err := s.Apply(t.Context(), outbox.Action{Verb: verb, EventID: id, Actor: "me", Reason: "test"})
		ok(err)
	}

	producer, producers := as(roles.Producer)
	dies, lives := plain(""), plain("")
	first, err := producer.EnqueueAutocommit(t.Context(), dies)
	ok(err)
	again, err := producer.EnqueueAutocommit(t.Context(), dies)
	ok(err)
	if again != first {
		t.Errorf("the duplicate has sequence %d, want %d", again, first)
	}
	var second int64
	ok(pgx.BeginFunc(t.Context(), producers, func(tx pgx.Tx) error {
		sequences, err := producer.EnqueueMany(t.Context(), tx, []outbox.Message{dies, lives})
		second = sequences[1]
		return err
	}))
	denied(t, producers, `UPDATE granted_outbox SET attempts = 0`)
	denied(t, producers, `SELECT 1 FROM granted_outbox_state`)

	relay, relays := as(roles.Relay)
	_, err = relay.Heartbeat(t.Context(), outbox.Member{Instance: "r", TTL: time.Minute})
	ok(err)
	lease := acquire(t, relay)
	_, err = lease.Recover(t.Context())
	ok(err)
	_, err = lease.Heads(t.Context(), 0, 10)
	ok(err)
	if n := len(read(t, lease)); n != 2 {
		t.Errorf("the relay reads %d messages, want 2", n)
	}
	ok(lease.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: []int64{first, second}}}}))
	ok(lease.Step(t.Context(), outbox.Step{Done: []int64{1}, Outcomes: []outbox.Outcome{
		{Sequence: first, Kind: outbox.Dead, Reason: "x", Spent: 1}, {Sequence: second, Kind: outbox.Retry, Spent: 1, Error: "refused"},
	}}))
	ok(lease.Release(t.Context(), 0))
	denied(t, relays, `INSERT INTO granted_outbox (topic, tenant_id, event_id, payload) VALUES ('x', gen_random_uuid(), gen_random_uuid(), '1')`)
	denied(t, relays, `UPDATE granted_outbox SET payload = '1'`)

	operator, operators := as(roles.Operator)
	act(operator, outbox.VerbReplay, dies.EventID)
	act(operator, outbox.VerbDiscard, dies.EventID)
	act(operator, outbox.VerbTrigger, uuid.Nil)
	denied(t, operators, `UPDATE granted_outbox SET payload = '1'`)

	viewer, viewers := as(roles.Viewer)
	stats, err := viewer.Stats(t.Context())
	ok(err)
	if stats.Pending != 1 || stats.Discarded != 1 {
		t.Errorf("the viewer sees %+v", stats)
	}
	tenants, err := viewer.Tenants(t.Context(), 10)
	ok(err)
	if len(tenants.Tenants) != 1 || tenants.Tenants[0].Pending != 1 || tenants.Tenants[0].Dead != 0 {
		t.Errorf("the viewer counts %+v", tenants)
	}
	_, err = viewer.List(t.Context(), outbox.Filter{Status: outbox.StatusDiscarded})
	ok(err)
	_, err = viewer.Keys(t.Context(), 0, 10)
	ok(err)
	denied(t, viewers, `DELETE FROM granted_outbox_state`)

	cleaner, cleaners := as(roles.Cleaner)
	exec(t, admin, `UPDATE granted_outbox SET published_at = now() - interval '1 day' WHERE sequence = $1`, second)
	exec(t, admin, `UPDATE granted_outbox_state SET dead_at = now() - interval '1 day'`)
	purged, err := cleaner.Purge(t.Context(), outbox.PurgeRequest{Published: time.Hour, Dead: time.Hour, Limit: 10})
	ok(err)
	if purged.Published != 1 || purged.Dead != 1 {
		t.Errorf("purged %+v, want one of each", purged)
	}
	denied(t, cleaners, `UPDATE granted_outbox SET published_at = now()`)
}

func TestAProducerMayNumberMessagesOfATableThatWasVerbatim(t *testing.T) {
	env := testenv.Postgres(t)
	verbatim(t, env.Pool(t), "widened_outbox", "")
	owner := newStore(t, env.Pool(t), pgstore.Config{Table: "widened_outbox"})
	must(t, owner.MigrateFull(t.Context()))
	roles, as := grant(t, env, owner)

	producer, _ := as(roles.Producer)
	_, err := producer.EnqueueAutocommit(t.Context(), message("a"))

	must(t, err)
}
