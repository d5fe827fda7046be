package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// A layout is what a table looks like and the statements that fit it. It is looked
// at once, by whoever uses the store first.
type layout struct {
	traits
	sql statements
}

// traits are what makes one table's statements differ from another's.
type traits struct {
	payload PayloadType
	// verbatim: the table has the columns id, tenant_id uuid, topic, payload,
	// event_id, sequence and those of its life, and none of ours. What they
	// cannot say is kept in a state table, or refused.
	verbatim bool
	// trace: a verbatim table with traceparent and tracestate.
	trace bool
	// tenantUUID and noSlot: a full table that was verbatim once. Changing the
	// type of a column or adding a generated one would have rewritten it.
	tenantUUID, noSlot bool
}

// hash is the slot of a message. It is computed by the database alone: nobody
// promises that another implementation would agree.
const hash = `(pg_catalog.hashtextextended(CASE WHEN msg_key = '' THEN event_id::text ELSE msg_key END, 0) & 255)::smallint`

const (
	// live holds for messages that are neither published nor dead.
	live = `pg_catalog.num_nonnulls(published_at, dead_at) < 1`

	// slots holds for messages of the shard in $3 and $4. The first branch is
	// folded away when the shard is everything. CASE counts as one half for the
	// planner where BETWEEN would count as 1/200.
	slots = `CASE WHEN $3::smallint <= 0 AND $4::smallint >= 255 THEN true
   WHEN {{slot}} BETWEEN $3::smallint AND $4::smallint THEN true ELSE false END`

	// mine holds for live messages of the shard.
	mine = `CASE WHEN ` + live + ` THEN ` + slots + ` ELSE false END`

	// columns are what scanner reads, after the part.
	columns = `sequence, event_id, tenant_id, topic, msg_key, payload, aggregate_type, aggregate_id, event_type, content_type,
  headers, traceparent, tracestate, last_error, event_version, attempts, crashes, replays, created_at, available_at,
  routes_done` + isDue

	// own says whether a row of the fresh part is to be dispatched. Rows that are
	// only reported as seen leave their bulk behind.
	own = `NOT $5::boolean OR ` + mine

	// What is as it is for almost every message is NULL: a NULL costs the server a
	// tenth of a value.
	on = `CASE WHEN ` + own + ` THEN NULL ELSE 1 END::smallint AS part, sequence, event_id, tenant_id, topic, msg_key,
  CASE WHEN ` + own + ` THEN payload END, aggregate_type, aggregate_id, event_type, content_type,
  CASE WHEN ` + own + ` THEN headers END, traceparent, tracestate, CASE WHEN ` + own + ` THEN last_error END,
  event_version, NULLIF(attempts, 0), NULLIF(crashes, 0), NULLIF(replays, 0), created_at, NULLIF(available_at, created_at), routes_done`

	fresh = on + isDue

	isDue = `, available_at <= pg_catalog.now() AS due`

	// inFlight holds for messages m that a batch lists, unless they were put back
	// since it was recorded.
	inFlight = `EXISTS (SELECT 1 FROM %s b WHERE b.ids @> m.sequence AND m.available_at <= b.recorded_at)`

	// status is outbox.Record.Status in SQL; %s is inFlight.
	status = `CASE WHEN published_at IS NOT NULL THEN 'published'
    WHEN dead_at IS NOT NULL AND dead_reason = 'discarded' THEN 'discarded'
    WHEN dead_at IS NOT NULL THEN 'dead'
    WHEN %s THEN 'in_flight'
    WHEN attempts > 0 THEN 'retrying'
    WHEN available_at > pg_catalog.now() THEN 'scheduled'
    ELSE 'pending' END`

	// shown follows columns in what an inspector reads; %s is inFlight.
	shown = `, published_at, dead_at, dead_reason, %s AS in_flight, pg_catalog.now() AS at`

	// paused holds while an operator has paused the whole table.
	paused = `EXISTS (SELECT 1 FROM %s WHERE table_name = '%s' AND route = '' AND paused_at IS NOT NULL)`

	// pausedRoutes are the routes that an operator has paused.
	pausedRoutes = `ARRAY(SELECT route FROM %s WHERE table_name = '%s' AND route <> '' AND paused_at IS NOT NULL ORDER BY route COLLATE "C")`

	// lastRoute is where the last recorded attempt of m went.
	lastRoute = `COALESCE((SELECT a.route FROM %s a WHERE a.sequence = m.sequence ORDER BY a.id DESC LIMIT 1), '')`

	// jobColumns are what scanJob reads.
	jobColumns = `id, verb, filter::text, expect, cap, rate, actor, reason, state, total, done, cursor, cut, next_at, driver,
  driven_at, created_at, updated_at`
)

// equatable is what makes two payloads of a type comparable: json has no equality
// and is kept as text.
var equatable = map[PayloadType]string{JSON: "::text", JSONB: "", Bytea: ""}

// newLayout fills in the statements.
func newLayout(n name, t traits) (*layout, error) {
	l := &layout{traits: t}
	vars := t.vars(n)
	if err := sqlfile.Render(sqlFiles, "sql", vars, &l.sql); err != nil {
		return nil, fmt.Errorf("render statements of %s.%s: %w", n.schema, n.table, err)
	}
	if !t.verbatim {
		return l, nil
	}
	var v verbatimStatements
	if err := sqlfile.Render(sqlFiles, "sql/verbatim", vars, &v); err != nil {
		return nil, fmt.Errorf("render statements of %s.%s: %w", n.schema, n.table, err)
	}
	v.replace(&l.sql)
	return l, nil
}

// vars are the placeholders of statements and migrations.
func (t traits) vars(n name) map[string]string {
	vars := n.vars()
	vars["status_view"] = vars["schema"] + sqlfile.DoubleQuote(n.table+"_status")
	if t.verbatim {
		t.verbatimVars(n, vars)
	}
	t.tenantVars(vars)
	vars["slot"] = "slot"
	if t.noSlot {
		vars["slot"] = hash
	}
	vars["hash"] = hash
	vars["live"] = live
	vars["slots"] = slots
	vars["mine"] = mine
	vars["columns"] = columns
	vars["fresh"] = fresh
	vars["on"] = on
	if t.verbatim {
		// The pending index of this layout wants its condition in the open.
		vars["live"] = `published_at IS NULL AND dead_at IS NULL`
		vars["mine"] = `published_at IS NULL AND CASE WHEN dead_at IS NULL THEN ` + slots + ` ELSE false END`
	}
	for _, v := range []string{"slots", "mine", "columns", "fresh", "on"} {
		vars[v] = strings.ReplaceAll(vars[v], "{{slot}}", vars["slot"])
		vars[v] = strings.Replace(vars[v], " tenant_id,", " "+vars["tenant"]+" AS tenant_id,", 1)
	}
	flying := fmt.Sprintf(inFlight, vars["batch"])
	vars["status"] = fmt.Sprintf(status, flying)
	vars["shown"] = "0::smallint AS part, " + vars["columns"] + fmt.Sprintf(shown, flying)
	vars["listed"] = strings.Replace(vars["shown"], " payload,", " NULL::bytea AS payload,", 1)
	vars["next"] = strings.Replace(vars["columns"], " payload,", " NULL AS payload,", 1)
	vars["paused"] = fmt.Sprintf(paused, vars["route"], n.table)
	vars["paused_routes"] = fmt.Sprintf(pausedRoutes, vars["route"], n.table)
	vars["last_route"] = fmt.Sprintf(lastRoute, vars["attempt"])
	vars["job_columns"] = jobColumns
	vars["messages_or_table"] = cmp.Or(vars["messages"], vars["table"])
	vars["payload"] = string(t.payload)
	vars["comparable"] = equatable[t.payload]
	return vars
}

const nilUUID = `'00000000-0000-0000-0000-000000000000'`

// tenantVars say how tenants are written and read: an empty one is the nil UUID in
// a column of that type.
func (t traits) tenantVars(vars map[string]string) {
	vars["tenant"], vars["tenant_of_t"] = "tenant_id", "t.tenant_id"
	vars["tenant_value"], vars["tenant_element"] = "$4", "tenant"
	if !t.tenantUUID {
		return
	}
	const read = `CASE WHEN %[1]s = ` + nilUUID + ` THEN '' ELSE %[1]s::text END`
	const write = `COALESCE(NULLIF(%s, ''), ` + nilUUID + `)::uuid`
	vars["tenant"], vars["tenant_of_t"] = fmt.Sprintf(read, "tenant_id"), fmt.Sprintf(read, "t.tenant_id")
	vars["tenant_value"], vars["tenant_element"] = fmt.Sprintf(write, "$4::text"), fmt.Sprintf(write, "tenant")
}

// A querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// layout returns the table's layout and looks at it first when nobody has. A table
// that does not exist is taken for a full one and not remembered: the statement
// that follows fails with the database's own words.
func (s *Store) layout(ctx context.Context, q querier) (*layout, error) {
	if l := s.look.Load(); l != nil {
		return l, nil
	}
	columns, err := s.lookAt(ctx, q)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", s.cfg.Table, err)
	case len(columns) == 0:
		return s.base, nil
	}
	t, err := recognise(s.cfg.Table, columns)
	if err != nil {
		return nil, err
	}
	l := s.base
	if t != l.traits {
		if l, err = newLayout(s.name, t); err != nil {
			return nil, err
		}
	}
	s.look.Store(l)
	return l, nil
}

func (s *Store) lookAt(ctx context.Context, q querier) (map[string]string, error) {
	rows, err := q.Query(ctx, s.base.sql.Layout, s.mode, s.name.quoted())
	if err != nil {
		return nil, err
	}
	columns := map[string]string{}
	var column, kind string
	_, err = pgx.ForEachRow(rows, []any{&column, &kind}, func() error {
		columns[column] = kind
		return nil
	})
	return columns, err
}

// recognise tells the two layouts from each other and from other tables.
func recognise(table string, columns map[string]string) (traits, error) {
	t := traits{payload: PayloadType(columns["payload"])}
	t.verbatim = columns["id"] == "uuid" && columns["msg_key"] == ""
	t.noSlot = !t.verbatim && columns["slot"] == ""
	t.tenantUUID = !t.verbatim && columns["tenant_id"] == "uuid"
	t.trace = t.verbatim && columns["traceparent"] != "" && columns["tracestate"] != ""
	want := fullColumns
	if t.verbatim {
		want = verbatimColumns
	}
	for _, c := range want {
		if columns[c] == "" {
			return t, outbox.ErrSchema.With("", fmt.Sprintf("%s is not an outbox: it has no column %s", table, c))
		}
	}
	if _, ok := equatable[t.payload]; !ok {
		return t, outbox.ErrSchema.With("", fmt.Sprintf("%s has a payload of type %s; want json, jsonb or bytea", table, t.payload))
	}
	if kind := columns["tenant_id"]; kind != "uuid" && (t.verbatim || kind != "text") {
		return t, outbox.ErrSchema.With("", fmt.Sprintf("%s has a tenant_id of type %s", table, kind))
	}
	return t, nil
}

var (
	verbatimColumns = []string{
		"id", "tenant_id", "topic", "payload", "event_id", "sequence", "created_at", "published_at", "attempts", "available_at",
		"locked_at", "last_error",
	}
	fullColumns = []string{"sequence", "event_id", "topic", "msg_key", "tenant_id", "replays", "payload", "dead_at"}
)
