package mysqlstore

import (
	"strings"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

const (
	// epoch is where Go's microseconds begin. The difference of two DATETIMEs is plain
	// arithmetic; UNIX_TIMESTAMP would go through the session's time zone.
	epoch = `TIMESTAMP'1970-01-01 00:00:00'`

	// open: neither published nor dead.
	open = `m.published_at IS NULL AND m.dead_at IS NULL`

	// record are the columns of a message in the order of scanner, after its part and
	// before its payload.
	record = `m.sequence, COALESCE(TIMESTAMPDIFF(MICROSECOND, ` + epoch + `, m.created_at), 0), ` +
		`COALESCE(TIMESTAMPDIFF(MICROSECOND, ` + epoch + `, m.available_at), 0), ` +
		`m.available_at <= UTC_TIMESTAMP(6), m.attempts, m.crashes, m.replays, COALESCE(m.event_version, 0), ` +
		`m.event_id, m.tenant_id, m.topic, m.msg_key, m.aggregate_type, m.aggregate_id, m.event_type, ` +
		`m.content_type, m.headers, m.traceparent, m.tracestate, m.last_error, m.routes_done`

	// state are the columns that only settled messages have.
	state = `COALESCE(TIMESTAMPDIFF(MICROSECOND, ` + epoch + `, m.published_at), 0), ` +
		`COALESCE(TIMESTAMPDIFF(MICROSECOND, ` + epoch + `, m.dead_at), 0), COALESCE(m.dead_reason, '')`

	insertColumns = `available_at, event_version, event_id, tenant_id, topic, msg_key, aggregate_type, aggregate_id, ` +
		`event_type, content_type, headers, traceparent, tracestate, payload`
	insertTexts = 11 // columns from event_id to tracestate
)

// insertRow is one row of an insert. A binary string is stored as it is; a text would be
// converted from the character set of the connection.
var insertRow = `(COALESCE(GREATEST(UTC_TIMESTAMP(6), CAST(? AS DATETIME(6))), UTC_TIMESTAMP(6)), ?` +
	strings.Repeat(", CAST(? AS BINARY)", insertTexts) + `, ?)`

// variables are the placeholders of the SQL files.
func variables(database, table string) map[string]string {
	vars := sqlfile.Vars(database, table, sqlfile.Backtick)
	vars["epoch"] = epoch
	vars["open"] = open
	vars["record"] = record
	vars["state"] = state
	vars["insert"] = insertColumns
	vars["rows"] = insertRow
	vars["ids"] = "?"
	return vars
}

// statements are the rendered files of sql.
type statements struct {
	Acquire          string `sql:"acquire.sql"`
	AdoptBatch       string `sql:"adopt_batch.sql"`
	Ahead            string `sql:"ahead.sql"`
	AllBatches       string `sql:"all_batches.sql"`
	Applied          string `sql:"applied.sql"`
	Attempts         string `sql:"attempts.sql"`
	Audit            string `sql:"audit.sql"`
	Available        string `sql:"available.sql"`
	Backoff          string `sql:"backoff.sql"`
	Batch            string `sql:"batch.sql"`
	Batches          string `sql:"batches.sql"`
	BeatBatches      string `sql:"beat_batches.sql"`
	Busy             string `sql:"busy.sql"`
	Columns          string `sql:"columns.sql"`
	CountDead        string `sql:"count_dead.sql"`
	CountFresh       string `sql:"count_fresh.sql"`
	CountHeld        string `sql:"count_held.sql"`
	Crashed          string `sql:"crashed.sql"`
	DeadOfKey        string `sql:"dead_of_key.sql"`
	DeleteIDs        string `sql:"delete_ids.sql"`
	DeleteRun        string `sql:"delete_run.sql"`
	Delivered        string `sql:"delivered.sql"`
	Discard          string `sql:"discard.sql"`
	DropBatches      string `sql:"drop_batches.sql"`
	DropLeases       string `sql:"drop_leases.sql"`
	Enqueue          string `sql:"enqueue.sql"`
	Existing         string `sql:"existing.sql"`
	ExpiredDead      string `sql:"expired_dead.sql"`
	ExpiredPublished string `sql:"expired_published.sql"`
	Fence            string `sql:"fence.sql"`
	FinishBatches    string `sql:"finish_batches.sql"`
	Fleet            string `sql:"fleet.sql"`
	Floor            string `sql:"floor.sql"`
	ForgetHistory    string `sql:"forget_history.sql"`
	Free             string `sql:"free.sql"`
	Get              string `sql:"get.sql"`
	GiveBack         string `sql:"give_back.sql"`
	Heads            string `sql:"heads.sql"`
	Heartbeat        string `sql:"heartbeat.sql"`
	Held             string `sql:"held.sql"`
	HistorySlice     string `sql:"history_slice.sql"`
	Increment        string `sql:"increment.sql"`
	InsertBatch      string `sql:"insert_batch.sql"`
	InsertLease      string `sql:"insert_lease.sql"`
	Job              string `sql:"job.sql"`
	JobInsert        string `sql:"job_insert.sql"`
	JobUpdate        string `sql:"job_update.sql"`
	Jobs             string `sql:"jobs.sql"`
	LastRoutes       string `sql:"last_routes.sql"`
	Lease            string `sql:"lease.sql"`
	Leases           string `sql:"leases.sql"`
	Leave            string `sql:"leave.sql"`
	Leftovers        string `sql:"leftovers.sql"`
	ListAsc          string `sql:"list_asc.sql"`
	ListDesc         string `sql:"list_desc.sql"`
	ListHeldAsc      string `sql:"list_held_asc.sql"`
	ListHeldDesc     string `sql:"list_held_desc.sql"`
	LockLeases       string `sql:"lock_leases.sql"`
	LockOpen         string `sql:"lock_open.sql"`
	LongHistories    string `sql:"long_histories.sql"`
	Messages         string `sql:"messages.sql"`
	MigrateLock      string `sql:"migrate_lock.sql"`
	MigrateUnlock    string `sql:"migrate_unlock.sql"`
	NoteAttempts     string `sql:"note_attempts.sql"`
	Now              string `sql:"now.sql"`
	Nudge            string `sql:"nudge.sql"`
	Lagging          string `sql:"lagging.sql"`
	Pause            string `sql:"pause.sql"`
	Paused           string `sql:"paused.sql"`
	PublishIDs       string `sql:"publish_ids.sql"`
	PublishRun       string `sql:"publish_run.sql"`
	PurgeDead        string `sql:"purge_dead.sql"`
	PurgePublished   string `sql:"purge_published.sql"`
	PurgeSlice       string `sql:"purge_slice.sql"`
	ReadAll          string `sql:"read_all.sql"`
	ReadClock        string `sql:"read_clock.sql"`
	ReadDue          string `sql:"read_due.sql"`
	ReadFresh        string `sql:"read_fresh.sql"`
	ReadIDs          string `sql:"read_ids.sql"`
	ReadRewind       string `sql:"read_rewind.sql"`
	ReadStrays       string `sql:"read_strays.sql"`
	RecordBatches    string `sql:"record_batches.sql"`
	Relays           string `sql:"relays.sql"`
	Release          string `sql:"release.sql"`
	Remove           string `sql:"remove.sql"`
	Renew            string `sql:"renew.sql"`
	Renewed          string `sql:"renewed.sql"`
	Replay           string `sql:"replay.sql"`
	Resume           string `sql:"resume.sql"`
	Session          string `sql:"session.sql"`
	SessionBegin     string `sql:"session_begin.sql"`
	SessionEnd       string `sql:"session_end.sql"`
	Settle           string `sql:"settle.sql"`
	Shape            string `sql:"shape.sql"`
	SilentRelays     string `sql:"silent_relays.sql"`
	Situation        string `sql:"situation.sql"`
	SlotsOf          string `sql:"slots_of.sql"`
	StartBatch       string `sql:"start_batch.sql"`
	Summaries        string `sql:"summaries.sql"`
	TenantsDead      string `sql:"tenants_dead.sql"`
	TenantsFresh     string `sql:"tenants_fresh.sql"`
	TenantsHeld      string `sql:"tenants_held.sql"`
	Trail            string `sql:"trail.sql"`
	TrimHistory      string `sql:"trim_history.sql"`
	Undelivered      string `sql:"undelivered.sql"`
	Unsettled        string `sql:"unsettled.sql"`
	Uptime           string `sql:"uptime.sql"`
	Visible          string `sql:"visible.sql"`
	Waiting          string `sql:"waiting.sql"`
	Withdraw         string `sql:"withdraw.sql"`
	WithdrawLease    string `sql:"withdraw_lease.sql"`
}
