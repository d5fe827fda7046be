package sqlitestore

import (
	"strings"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// clock is the database's clock in SQL, for defaults and the view; see the first
// migration for why it is not unixepoch.
const clock = `CAST(round((julianday('now') - 2440587.5) * 86400000) * 1000 AS INTEGER)`

// columns are those of a Record, in the order of scanRecord, but for the payload and
// whether it is in flight.
const columns = `m.sequence, m.event_id, m.tenant_id, m.topic, m.msg_key, ` +
	`COALESCE(m.aggregate_type, ''), COALESCE(m.aggregate_id, ''), COALESCE(m.event_type, ''), ` +
	`COALESCE(m.event_version, 0), COALESCE(m.content_type, ''), m.headers, ` +
	`COALESCE(m.traceparent, ''), COALESCE(m.tracestate, ''), ` +
	`m.created_at, m.available_at, COALESCE(m.published_at, 0), COALESCE(m.dead_at, 0), ` +
	`COALESCE(m.dead_reason, ''), COALESCE(m.last_error, ''), m.attempts, m.crashes, m.replays, m.routes_done`

// inFlight: open, recorded in a batch and not put back since. The subquery does not
// depend on m, so SQLite runs it once; asking every row for its batch would cost rows
// times runs.
const inFlight = `m.sequence IN (SELECT x.sequence FROM {{batch}} b CROSS JOIN json_each(b.ids) r ` +
	`CROSS JOIN {{table}} x ON x.sequence BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]') ` +
	`WHERE x.published_at IS NULL AND x.dead_at IS NULL AND x.available_at <= b.recorded_at)`

// status is Record.Status as of ?1, in SQL.
const status = `CASE WHEN m.published_at IS NOT NULL THEN 'published' ` +
	`WHEN m.dead_at IS NOT NULL AND m.dead_reason = 'discarded' THEN 'discarded' ` +
	`WHEN m.dead_at IS NOT NULL THEN 'dead' ` +
	`WHEN ` + inFlight + ` THEN 'in_flight' ` +
	`WHEN m.attempts > 0 THEN 'retrying' ` +
	`WHEN m.available_at > ?1 THEN 'scheduled' ELSE 'pending' END`

// lastRoute is where the last recorded attempt of m went.
const lastRoute = `COALESCE((SELECT a.route FROM {{attempt}} a WHERE a.sequence = m.sequence ORDER BY a.no DESC LIMIT 1), '')`

// judged is the time of m that a filter of status ?7 bounds.
const judged = `CASE WHEN ?7 IN ('dead', 'discarded') THEN m.dead_at ELSE m.created_at END`

// fits follows the sequence of a candidate of a list: the topic and the error, which
// only the program can judge, and whether the rest of the filter fits. ?1 is now.
const fits = `m.topic, CASE WHEN ?13 THEN COALESCE(m.last_error, '') ELSE '' END, ` +
	`(?4 = '' OR m.tenant_id = ?4) AND (?5 = '' OR m.msg_key = ?5) ` +
	`AND substr(m.topic, 1, length(?6)) = ?6 AND (?7 = '' OR {{status}} = ?7) ` +
	`AND (?9 = '' OR COALESCE(m.dead_reason, '') = ?9) AND (?10 = '' OR ` + lastRoute + ` = ?10) ` +
	`AND (?11 = 0 OR ` + judged + ` >= ?11) AND (?12 = 0 OR ` + judged + ` < ?12)`

const insertColumns = `created_at, available_at, event_version, event_id, tenant_id, topic, msg_key, ` +
	`aggregate_type, aggregate_id, event_type, content_type, headers, traceparent, tracestate, payload`

// insertRow is one row of an insert.
var insertRow = "(?" + strings.Repeat(", ?", strings.Count(insertColumns, ",")) + ")"

// variables are the placeholders of the SQL files.
func variables(name string) (map[string]string, error) {
	schema, table, ok, reason := sqlfile.ParseTable(name)
	if ok && schema != "" {
		ok, reason = false, "SQLite has no schemas: want a plain name"
	}
	if !ok {
		return nil, outbox.ErrInvalidTable.With("table", reason)
	}
	vars := sqlfile.Vars("", table, sqlfile.DoubleQuote)
	expand := strings.NewReplacer("{{batch}}", vars["batch"], "{{table}}", vars["table"], "{{attempt}}", vars["attempt"]).Replace
	vars["clock"] = clock
	vars["insert"] = insertColumns
	vars["rows"] = insertRow
	vars["status"] = expand(status)
	vars["fits"] = strings.ReplaceAll(expand(fits), "{{status}}", vars["status"])
	vars["last_route"] = expand(lastRoute)
	vars["columns"] = columns + ", m.payload, 0"
	vars["detail"] = columns + ", m.payload, " + expand(inFlight)
	vars["summary"] = columns + ", NULL, " + expand(inFlight)
	return vars, nil
}

// statements are the rendered files of sql.
type statements struct {
	Acquire           string `sql:"acquire.sql"`
	Adopt             string `sql:"adopt.sql"`
	Ahead             string `sql:"ahead.sql"`
	Applied           string `sql:"applied.sql"`
	ArchivedDead      string `sql:"archived_dead.sql"`
	ArchivedPublished string `sql:"archived_published.sql"`
	Attempts          string `sql:"attempts.sql"`
	Audit             string `sql:"audit.sql"`
	Backoff           string `sql:"backoff.sql"`
	Batch             string `sql:"batch.sql"`
	BeatBatches       string `sql:"beat_batches.sql"`
	CountDead         string `sql:"count_dead.sql"`
	CountFresh        string `sql:"count_fresh.sql"`
	CountHeld         string `sql:"count_held.sql"`
	CountInFlight     string `sql:"count_in_flight.sql"`
	Crashed           string `sql:"crashed.sql"`
	DeadOfKey         string `sql:"dead_of_key.sql"`
	DeleteIDs         string `sql:"delete_ids.sql"`
	DeleteRun         string `sql:"delete_run.sql"`
	Delivered         string `sql:"delivered.sql"`
	Discard           string `sql:"discard.sql"`
	DropBatch         string `sql:"drop_batch.sql"`
	Enqueue           string `sql:"enqueue.sql"`
	EnqueueMany       string `sql:"enqueue_many.sql"`
	Existing          string `sql:"existing.sql"`
	Exists            string `sql:"exists.sql"`
	ExpiredDead       string `sql:"expired_dead.sql"`
	ExpiredPublished  string `sql:"expired_published.sql"`
	Fence             string `sql:"fence.sql"`
	FinishBatches     string `sql:"finish_batches.sql"`
	Flight            string `sql:"flight.sql"`
	Floor             string `sql:"floor.sql"`
	Forget            string `sql:"forget.sql"`
	ForgetRelays      string `sql:"forget_relays.sql"`
	Get               string `sql:"get.sql"`
	Hasten            string `sql:"hasten.sql"`
	Heads             string `sql:"heads.sql"`
	Heartbeat         string `sql:"heartbeat.sql"`
	JobInsert         string `sql:"job_insert.sql"`
	Jobs              string `sql:"jobs.sql"`
	JobUpdate         string `sql:"job_update.sql"`
	Lease             string `sql:"lease.sql"`
	Leases            string `sql:"leases.sql"`
	Leave             string `sql:"leave.sql"`
	LiveRelays        string `sql:"live_relays.sql"`
	Members           string `sql:"members.sql"`
	NoteAttempt       string `sql:"note_attempt.sql"`
	Nudge             string `sql:"nudge.sql"`
	Lagging           string `sql:"lagging.sql"`
	Orphans           string `sql:"orphans.sql"`
	Pause             string `sql:"pause.sql"`
	Paused            string `sql:"paused.sql"`
	PublishIDs        string `sql:"publish_ids.sql"`
	PublishRouted     string `sql:"publish_routed.sql"`
	PublishRun        string `sql:"publish_run.sql"`
	PurgeDead         string `sql:"purge_dead.sql"`
	PurgePublished    string `sql:"purge_published.sql"`
	ReadDue           string `sql:"read_due.sql"`
	ReadFresh         string `sql:"read_fresh.sql"`
	ReadIDs           string `sql:"read_ids.sql"`
	ReadRewind        string `sql:"read_rewind.sql"`
	ReadSeen          string `sql:"read_seen.sql"`
	ReadStrays        string `sql:"read_strays.sql"`
	RecordBatch       string `sql:"record_batch.sql"`
	Relays            string `sql:"relays.sql"`
	Release           string `sql:"release.sql"`
	Remove            string `sql:"remove.sql"`
	Renew             string `sql:"renew.sql"`
	Replay            string `sql:"replay.sql"`
	Reschedule        string `sql:"reschedule.sql"`
	Resume            string `sql:"resume.sql"`
	SettleFailed      string `sql:"settle_failed.sql"`
	Shape             string `sql:"shape.sql"`
	StartBatch        string `sql:"start_batch.sql"`
	Summaries         string `sql:"summaries.sql"`
	TenantsDead       string `sql:"tenants_dead.sql"`
	TenantsFresh      string `sql:"tenants_fresh.sql"`
	TenantsHeld       string `sql:"tenants_held.sql"`
	Top               string `sql:"top.sql"`
	TopBatch          string `sql:"top_batch.sql"`
	Trail             string `sql:"trail.sql"`
	TrimAttempts      string `sql:"trim_attempts.sql"`
	Undelivered       string `sql:"undelivered.sql"`
	Waiting           string `sql:"waiting.sql"`
	Withdraw          string `sql:"withdraw.sql"`
	WithdrawLease     string `sql:"withdraw_lease.sql"`
}

// lists are the rendered files of sql/list, in one order.
type lists struct {
	All      string `sql:"all.sql"`
	Held     string `sql:"held.sql"`
	Dead     string `sql:"dead.sql"`
	SlimAll  string `sql:"slim_all.sql"`
	SlimDead string `sql:"slim_dead.sql"`
	InFlight string `sql:"in_flight.sql"`
}
