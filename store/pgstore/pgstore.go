// Package pgstore keeps an outbox in PostgreSQL.
//
// Enqueue runs in the caller's own transaction: the message exists if and only if
// that transaction commits. It costs one statement and takes no lock but the new
// row's. The relay side implements every seam of package outbox; each of its writes
// is fenced by a lease row that the same statement locks, so a relay that lost its
// lease writes nothing.
//
// The relay needs no session: nothing is set beyond a transaction, no statement stays
// prepared, no advisory lock is held, so it works behind a pooler in transaction
// mode. Enqueue sends its statement as the caller's connection sends its own; behind
// such a pooler pgx wants default_query_exec_mode=cache_describe for all of them. Every
// object is named with its schema, whatever the search_path.
//
// It does not deduplicate for longer than a row exists, it does not protect against
// people who edit rows, and its Waker is silent behind a pooler in transaction mode:
// give [Config.Listen] a direct address there, or rely on polling.
package pgstore

import (
	"embed"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// Config describes one outbox table. The zero value of every field but Table is
// right for most.
type Config struct {
	// Table is the outbox, as `name` or `schema.name`. The schema defaults to
	// public.
	Table string
	// Gate validates messages before SQL.
	Gate outbox.Gate
	// Listen is how Listen connects. Defaults to the pool's own configuration;
	// behind a pooler in transaction mode it must lead around the pooler.
	Listen *pgx.ConnConfig
	// Payload is the type of the payload column that Migrate creates: json
	// (validated, stored byte for byte), jsonb (rewritten by the server) or bytea
	// (any bytes). Defaults to json. An existing column is used as it is.
	Payload PayloadType
}

// PayloadType is the type of a payload column.
type PayloadType string

// The payload types.
const (
	JSON  PayloadType = "json"
	JSONB PayloadType = "jsonb"
	Bytea PayloadType = "bytea"
)

// A Store is one outbox table in PostgreSQL. Make it with New; it is safe for
// concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	cfg   Config
	name  name
	mode  pgx.QueryExecMode
	base  *layout                // what Migrate would make
	look  atomic.Pointer[layout] // what the table turned out to be
	fits  atomic.Bool            // the schema has been checked
	purge purgePosition
}

var (
	_ outbox.Store     = (*Store)(nil)
	_ outbox.Fleet     = (*Store)(nil)
	_ outbox.Waker     = (*Store)(nil)
	_ outbox.Purger    = (*Store)(nil)
	_ outbox.Inspector = (*Store)(nil)
	_ outbox.Operator  = (*Store)(nil)
	_ outbox.Recorder  = (*Store)(nil)
)

// New makes a store. It does no I/O: a missing table is reported by the first use,
// or by CheckSchema.
func New(pool *pgxpool.Pool, cfg Config) (*Store, error) {
	if pool == nil {
		return nil, outbox.ErrInvalidConfig.With("pool", "is required")
	}
	n, err := parseName(cfg.Table)
	if err != nil {
		return nil, err
	}
	switch cfg.Payload {
	case "":
		cfg.Payload = JSON
	case JSON, JSONB, Bytea:
	default:
		return nil, outbox.ErrInvalidConfig.With("payload", fmt.Sprintf("must be json, jsonb or bytea, not %q", cfg.Payload))
	}
	base, err := newLayout(n, traits{payload: cfg.Payload})
	if err != nil {
		return nil, err
	}
	return &Store{pool: pool, cfg: cfg, name: n, mode: execMode(pool.Config().ConnConfig), base: base}, nil
}

// Table names the table as it was configured.
func (s *Store) Table() string { return s.cfg.Table }

// execMode is how every statement is sent: unnamed, so that it is planned with its
// values and needs no server connection of its own, and with cached descriptions
// unless the caller switched those off.
func execMode(c *pgx.ConnConfig) pgx.QueryExecMode {
	if c.DescriptionCacheCapacity > 0 {
		return pgx.QueryExecModeCacheDescribe
	}
	return pgx.QueryExecModeDescribeExec
}

// A name is a table name that passed the allow-list.
type name struct{ schema, table string }

func parseName(text string) (name, error) {
	schema, table, ok, reason := sqlfile.ParseTable(text)
	if !ok {
		return name{}, outbox.ErrInvalidTable.With("table", reason)
	}
	if schema == "" {
		schema = "public"
	}
	return name{schema, table}, nil
}

func (n name) quoted() string { return pgx.Identifier{n.schema, n.table}.Sanitize() }

func (n name) vars() map[string]string {
	return sqlfile.Vars(n.schema, n.table, sqlfile.DoubleQuote)
}

//go:embed sql/*.sql sql/verbatim/*.sql
var sqlFiles embed.FS

// statements are the rendered files of sql/, one field each.
type statements struct {
	Insert           string `sql:"insert.sql"`
	InsertUnique     string `sql:"insert_unique.sql"`
	InsertOrFind     string `sql:"insert_or_find.sql"`
	InsertMany       string `sql:"insert_many.sql"`
	InsertManyUnique string `sql:"insert_many_unique.sql"`
	Duplicates       string `sql:"duplicates.sql"`
	Duplicate        string `sql:"duplicate.sql"`

	Server         string `sql:"server.sql"`
	Identity       string `sql:"identity.sql"`
	Restored       string `sql:"restored.sql"`
	ConfirmRestore string `sql:"confirm_restore.sql"`
	Acquire        string `sql:"acquire.sql"`
	AcquireWait    string `sql:"acquire_wait.sql"`
	Acquired       string `sql:"acquired.sql"`
	Situation      string `sql:"situation.sql"`
	Renew          string `sql:"renew.sql"`
	Release        string `sql:"release.sql"`
	Timeouts       string `sql:"timeouts.sql"`
	Planner        string `sql:"planner.sql"`
	Fence          string `sql:"fence.sql"`

	Heads           string `sql:"heads.sql"`
	ReadFresh       string `sql:"read_fresh.sql"`
	ReadOn          string `sql:"read_on.sql"`
	ReadAll         string `sql:"read_all.sql"`
	StepKeepRun     string `sql:"step_keep_run.sql"`
	StepKeepAny     string `sql:"step_keep_any.sql"`
	StepKeepMixed   string `sql:"step_keep_mixed.sql"`
	StepDeleteRun   string `sql:"step_delete_run.sql"`
	StepDeleteAny   string `sql:"step_delete_any.sql"`
	StepDeleteMixed string `sql:"step_delete_mixed.sql"`

	Batches    string `sql:"batches.sql"`
	Unsettled  string `sql:"unsettled.sql"`
	DropBatch  string `sql:"batch_drop.sql"`
	AdoptBatch string `sql:"batch_adopt.sql"`
	Crashed    string `sql:"crashed.sql"`

	Heartbeat    string `sql:"heartbeat.sql"`
	Leave        string `sql:"leave.sql"`
	LockLeases   string `sql:"leases_lock.sql"`
	DropLeases   string `sql:"leases_drop.sql"`
	InsertLeases string `sql:"leases_insert.sql"`
	SlotsOf      string `sql:"slots_of.sql"`
	InsertBatch  string `sql:"batch_insert.sql"`
	DropBatches  string `sql:"batches_drop.sql"`

	PurgeDelete         string `sql:"purge_delete.sql"`
	PurgeCandidates     string `sql:"purge_candidates.sql"`
	PurgeDead           string `sql:"purge_dead.sql"`
	PurgeDeadCandidates string `sql:"purge_dead_candidates.sql"`
	PurgeHistory        string `sql:"purge_history.sql"`

	Stats     string `sql:"stats.sql"`
	Tenants   string `sql:"tenants.sql"`
	InFlight  string `sql:"in_flight.sql"`
	Leases    string `sql:"leases.sql"`
	Relays    string `sql:"relays.sql"`
	ListAsc   string `sql:"list_asc.sql"`
	ListDesc  string `sql:"list_desc.sql"`
	SliceAsc  string `sql:"slice_asc.sql"`
	SliceDesc string `sql:"slice_desc.sql"`
	Get       string `sql:"get.sql"`
	History   string `sql:"history.sql"`

	NudgeLeases string `sql:"leases_nudge.sql"`
	Replay      string `sql:"replay.sql"`
	Notify      string `sql:"notify.sql"`

	Discard       string `sql:"discard.sql"`
	Reschedule    string `sql:"reschedule.sql"`
	Backoff       string `sql:"backoff.sql"`
	DeadOfKey     string `sql:"dead_of_key.sql"`
	RoutesPaused  string `sql:"routes_paused.sql"`
	Pause         string `sql:"pause.sql"`
	Resume        string `sql:"resume.sql"`
	WithdrawLease string `sql:"lease_withdraw.sql"`
	Audit         string `sql:"audit.sql"`
	Trail         string `sql:"trail.sql"`

	Ahead     string `sql:"ahead.sql"`
	KeyHeads  string `sql:"key_heads.sql"`
	Waiting   string `sql:"waiting.sql"`
	Listed    string `sql:"listed.sql"`
	Flight    string `sql:"flight.sql"`
	Delivered string `sql:"delivered.sql"`

	CandidatesAsc  string `sql:"candidates_asc.sql"`
	CandidatesDesc string `sql:"candidates_desc.sql"`
	ReplayDead     string `sql:"replay_dead.sql"`
	Lagging        string `sql:"lagging.sql"`
	Remove         string `sql:"remove.sql"`
	InsertJob      string `sql:"job_insert.sql"`
	UpdateJob      string `sql:"job_update.sql"`
	LockJob        string `sql:"job_lock.sql"`
	Jobs           string `sql:"jobs.sql"`
	Clock          string `sql:"clock.sql"`
	Ordered        string `sql:"planner_ordered.sql"`

	Layout string `sql:"layout.sql"`
	Serial string `sql:"serial.sql"`
	Shape  string `sql:"shape.sql"`

	FindIDs string // of the verbatim layout
}
