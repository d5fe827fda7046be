package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/failpoint"
	"github.com/go-outbox/outbox/internal/migrate"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// The verbatim layout is a table of twelve columns that another tool owns. Every
// statement that reads sees it through a view in the shape of the full layout; the
// statements that write are its own. How it is read and settled without an index on
// sequence is in verbatim_read.go and verbatim_step.go.

// verbatimStatements replace those of the full layout that write, and those that
// would need an index on sequence.
type verbatimStatements struct {
	Insert           string `sql:"insert.sql"`
	InsertUnique     string `sql:"insert_unique.sql"`
	InsertOrFind     string `sql:"insert_or_find.sql"`
	InsertMany       string `sql:"insert_many.sql"`
	InsertManyUnique string `sql:"insert_many_unique.sql"`
	Situation        string `sql:"situation.sql"`
	ReadFresh        string `sql:"read_fresh.sql"`
	ReadAll          string `sql:"read_all.sql"`
	StepKeepAny      string `sql:"step_keep_any.sql"`
	StepKeepMixed    string `sql:"step_keep_mixed.sql"`
	StepDeleteAny    string `sql:"step_delete_any.sql"`
	StepDeleteMixed  string `sql:"step_delete_mixed.sql"`
	FindIDs          string `sql:"find.sql"`
	Stats            string `sql:"stats.sql"`
	Tenants          string `sql:"tenants.sql"`
	Crashed          string `sql:"crashed.sql"`
	Replay           string `sql:"replay.sql"`
	PurgeDelete      string `sql:"purge_delete.sql"`
	PurgeDead        string `sql:"purge_dead.sql"`
	Discard          string `sql:"discard.sql"`
	ReplayDead       string `sql:"replay_dead.sql"`
	Backoff          string `sql:"backoff.sql"`
	Remove           string `sql:"remove.sql"`
}

func (v *verbatimStatements) replace(s *statements) {
	s.Insert, s.InsertUnique = v.Insert, v.InsertUnique
	s.InsertOrFind = v.InsertOrFind
	s.InsertMany, s.InsertManyUnique = v.InsertMany, v.InsertManyUnique
	s.Situation, s.Stats, s.Tenants = v.Situation, v.Stats, v.Tenants
	s.ReadFresh, s.ReadAll = v.ReadFresh, v.ReadAll
	s.StepKeepAny, s.StepKeepMixed = v.StepKeepAny, v.StepKeepMixed
	s.StepDeleteAny, s.StepDeleteMixed = v.StepDeleteAny, v.StepDeleteMixed
	s.StepKeepRun, s.StepDeleteRun, s.FindIDs = "", "", v.FindIDs
	s.Crashed, s.Replay = v.Crashed, v.Replay
	s.PurgeDelete, s.PurgeDead = v.PurgeDelete, v.PurgeDead
	s.Discard, s.ReplayDead = v.Discard, v.ReplayDead
	s.Backoff, s.Remove = v.Backoff, v.Remove
}

// verbatimVars name the table, its state and the view that statements read.
func (t traits) verbatimVars(n name, vars map[string]string) {
	vars["messages"] = vars["table"]
	vars["table"] = vars["schema"] + sqlfile.DoubleQuote(n.table+"_message")
	vars["state"] = vars["schema"] + sqlfile.DoubleQuote(n.table+"_state")
	vars["pending"] = pending
	for _, v := range []string{"trace_columns", "trace_values", "trace_arrays", "trace_selected"} {
		vars[v] = ""
	}
	vars["trace_viewed"] = "NULL::text AS traceparent, NULL::text AS tracestate"
	if t.trace {
		vars["trace_columns"] = ", traceparent, tracestate"
		vars["trace_values"] = ", NULLIF($6::text, ''), NULLIF($7::text, '')"
		vars["trace_arrays"] = ", $6::text[], $7::text[]"
		vars["trace_selected"] = ", NULLIF(traceparent, ''), NULLIF(tracestate, '')"
		vars["trace_viewed"] = "m.traceparent, m.tracestate"
	}
	for _, v := range []string{"messages", "state", "trace_viewed"} {
		vars["pending"] = strings.ReplaceAll(vars["pending"], "{{"+v+"}}", vars[v])
	}
}

// pending is the view as a read wants it, with the version left to Go, where it costs no
// regular expression per message. OFFSET 0 makes the state a lookup per message: joined any other way, messages
// would lose the order of their index, and a read that takes a few would sort all.
const pending = `(SELECT m.id, m.sequence, m.created_at, m.available_at, m.published_at, s.dead_at, m.event_id, m.attempts,
   NULL::integer AS event_version, COALESCE(s.crashes, 0::smallint) AS crashes, COALESCE(s.replays, 0::smallint) AS replays,
   (pg_catalog.hashtextextended(m.event_id::text, 0) & 255)::smallint AS slot,
   CASE WHEN m.tenant_id = ` + nilUUID + ` THEN '' ELSE m.tenant_id::text END AS tenant_id,
   m.topic, ''::text AS msg_key, NULL::text AS aggregate_type, NULL::text AS aggregate_id, NULL::text AS event_type,
   NULL::text AS content_type, NULL::json AS headers, {{trace_viewed}}, m.last_error, s.routes_done, m.payload
  FROM {{messages}} m
  LEFT JOIN LATERAL (SELECT * FROM {{state}} s WHERE s.sequence = m.sequence OFFSET 0) s ON true) AS pending`

//go:embed migrate_full.sql
var migrateFull string

// MigrateFull turns a verbatim table into a full one in place, so that messages may
// have keys, headers and the rest, and every statement its index. Writers go on
// meanwhile, except while the columns are added, which rewrites nothing. Relays must
// be stopped: ErrLeaseHeld says that one is not. Indexes that only the verbatim
// layout needs stay; drop them to make settles cheaper.
func (s *Store) MigrateFull(ctx context.Context) error {
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	l, err := s.layout(ctx, s.pool)
	if err != nil || !l.verbatim {
		return s.explain("migrate", err)
	}
	vars := l.vars(s.name)
	vars["view"] = vars["table"]
	text, err := sqlfile.Expand(migrateFull, vars)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", s.cfg.Table, err)
	}
	for _, index := range []string{
		`CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "` + s.name.table + `_sequence_key" ON ` + vars["messages"] + ` (sequence)`,
		`CREATE INDEX CONCURRENTLY IF NOT EXISTS "` + s.name.table + `_due" ON ` + vars["messages"] +
			` (available_at, sequence) WHERE available_at > created_at`,
	} {
		if _, err := s.pool.Exec(ctx, index, s.mode); err != nil {
			return s.explain("migrate", err)
		}
		failpoint.Hit(failpoint.Migrating)
	}
	err = database{s}.Locked(ctx, func(ctx context.Context, tx migrate.Tx) error {
		return s.makeFull(ctx, tx.(migrateTx).tx, l, strings.Split(text, "\n-- statement\n"))
	})
	s.forget()
	return s.explain("migrate", err)
}

// makeFull adds the columns and the view of the full layout while no relay works.
func (s *Store) makeFull(ctx context.Context, tx pgx.Tx, l *layout, statements []string) error {
	leases, err := lockLeases(ctx, tx, &l.sql, s.mode)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(leases, func(l lockedLease) bool { return l.Held }) {
		return outbox.ErrLeaseHeld
	}
	full, err := s.migrationsOf(s.base)
	if err != nil {
		return err
	}
	up := full.Migrations[0].Up
	for _, statement := range up {
		if strings.Contains(statement, "CREATE VIEW") {
			statements = append(statements, statement)
		}
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement, s.mode); err != nil {
			return err
		}
		failpoint.Hit(failpoint.Migrating)
	}
	return nil
}

// fits refuses what the verbatim layout has no column for. Trace context is
// dropped where there is no place for it: it was captured, not asked for.
func (t traits) fits(m *outbox.Message) error {
	if !t.verbatim {
		return t.fitsTenant(m)
	}
	refuse := func(field string) error {
		return outbox.ErrInvalidMessage.With(field, "has no column in this table; `outbox migrate up --full` adds it")
	}
	switch {
	case m.Key != "":
		return outbox.ErrInvalidKey.With("key", "has no column in this table, so order cannot be kept; `outbox migrate up --full` adds it")
	case len(m.Headers) > 0:
		return outbox.ErrInvalidHeader.With("headers", "have no column in this table; `outbox migrate up --full` adds it")
	case m.AggregateType != "":
		return refuse("aggregate_type")
	case m.AggregateID != "":
		return refuse("aggregate_id")
	case m.EventType != "":
		return refuse("event_type")
	case m.ContentType != "" && m.ContentType != "application/json":
		return refuse("content_type")
	}
	return t.fitsTenant(m)
}

// fitsTenant refuses a tenant that a UUID column cannot hold, and writes the others
// as the server will read them back.
func (t traits) fitsTenant(m *outbox.Message) error {
	if m.TenantID == "" || (!t.verbatim && !t.tenantUUID) {
		return nil
	}
	id, err := uuid.Parse(m.TenantID)
	if err != nil {
		return outbox.ErrInvalidMessage.With("tenant_id", fmt.Sprintf("%q is not a UUID, which this table's column holds", m.TenantID))
	}
	if m.TenantID = id.String(); id == uuid.Nil {
		m.TenantID = "" // stored as the nil UUID, and read back as none
	}
	return nil
}
