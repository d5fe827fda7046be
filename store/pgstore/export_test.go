package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// A Statement is a rendered statement with typical parameters, for plan tests.
type Statement struct {
	Name string
	SQL  string
	Args []any
}

// HotStatements are the statements whose plans matter, as a lease would send them.
func HotStatements(l outbox.Lease, first, count int64) []Statement {
	le := l.(*lease)
	some := make([]int64, 0, count/2)
	for id := first; id < first+count; id += 2 {
		some = append(some, id)
	}
	all := outbox.Step{Done: []int64{1}, Record: []outbox.Batch{{No: 2, IDs: some}}}
	for id := first; id < first+count; id++ {
		all.Outcomes = append(all.Outcomes, outbox.Outcome{Sequence: id, Spent: 1})
	}
	sparse := all
	sparse.Outcomes = nil
	for _, id := range some {
		sparse.Outcomes = append(sparse.Outcomes, outbox.Outcome{Sequence: id, Spent: 1})
	}
	mixed := sparse
	mixed.Outcomes = append(mixed.Outcomes[:len(some):len(some)], outbox.Outcome{Sequence: first + 1, Kind: outbox.Retry, Spent: 1})
	var list []Statement
	add := func(name, sql string, args []any) {
		for len(args) > 0 {
			switch args[0].(type) {
			case pgx.QueryExecMode, pgx.QueryResultFormats:
				args = args[1:]
				continue
			}
			break
		}
		list = append(list, Statement{name, sql, args})
	}
	read := func(name string, req outbox.ReadRequest) {
		sql, args := le.query(req, req.Limit)
		add(name, sql, args)
	}
	step := func(name string, s outbox.Step) {
		sql, args, err := le.stepQuery(&s)
		if err != nil {
			panic(err)
		}
		add(name, sql, args)
	}
	read("read fresh", outbox.ReadRequest{After: first, Limit: 500})
	read("read fresh and seen", outbox.ReadRequest{After: first, Limit: 500, All: true})
	le.backlog = true
	read("read fresh of a backlog", outbox.ReadRequest{After: first, Limit: 500})
	read("read fresh and seen of a backlog", outbox.ReadRequest{After: first, Limit: 500, All: true})
	le.backlog = false
	read("read everything", outbox.ReadRequest{
		After: first, Limit: 500, IDs: some[:10], Due: 100, Sweep: &outbox.Range{From: 0, To: 10_000},
		Rewind: &outbox.Rewind{After: 0, To: first, Limit: 500, Keys: []string{"k1"}, Topics: []string{"shop.order.placed.v1"}},
	})
	step("settle a dense run", all)
	step("settle a list", sparse)
	step("settle failures too", mixed)
	all.Delete, sparse.Delete, mixed.Delete = true, true, true
	step("delete a dense run", all)
	step("delete a list", sparse)
	step("delete and settle failures", mixed)
	add("heads", le.sql.Heads, []any{int64(0), 1000, le.info.SlotLo, le.info.SlotHi, le.info.Shard, le.owner, le.info.Epoch})
	add("unsettled", le.sql.Unsettled, []any{some})
	add("slice", le.sql.SliceAsc, []any{int64(0), int64(1 << 62), 10_000, false})
	add("purge", le.sql.PurgeDelete, []any{int64(0), int64(10_000), int64(1), 1000, []int64(nil)})
	never := nullTime(time.Time{})
	add("list", le.sql.ListDesc, []any{int64(0), int64(1 << 62), 10_000, 50, false, "", "", "", "", "", "", never, never})
	add("list dead", le.sql.ListDesc, []any{int64(0), int64(1 << 62), 10_000, 50, true, "dead", "", "", "", "", "", never, never})
	return list
}

// OperatorStatements are those of an operator's transaction, which begins with the
// first of them.
func OperatorStatements(l outbox.Lease) (begin string, list []Statement) {
	le := l.(*lease)
	add := func(name, sql string, args ...any) { list = append(list, Statement{name, sql, args}) }
	add("ahead", le.sql.Ahead, "k1", int64(1<<62), true)
	add("dead of a key", le.sql.DeadOfKey, "k1", 1000)
	add("heads of keys", le.sql.KeyHeads, 100_000)
	add("waiting", le.sql.Waiting, []string{"k1", "k2"}, 100_000)
	add("backoff", le.sql.Backoff, 10_000)
	add("tenants", le.sql.Tenants, 100_000)
	add("delivered", le.sql.Delivered, int64(0), 100_000, []string{"k1"})
	add("candidates of a job", le.sql.CandidatesAsc, int64(0), int64(1<<62), 1000, true, true)
	add("candidates of groups", le.sql.CandidatesDesc, int64(0), int64(1<<62), 20_000, true, true)
	add("candidates of a purge", le.sql.CandidatesAsc, int64(0), int64(1<<62), 1000, false, false)
	ids := []pgtype.UUID{pgUUID(uuid.New()), pgUUID(uuid.New())}
	add("replay", le.sql.ReplayDead, ids, []int64{0, 0})
	add("discard", le.sql.Discard, ids, true)
	add("remove", le.sql.Remove, ids, "dead")
	return le.sql.Ordered, list
}

// VerbatimReads are the ordinary reads of a verbatim table: from the start, and from
// where the lease is with a lap behind it.
func VerbatimReads(l outbox.Lease) []Statement {
	le := l.(*lease)
	at := le.trail.at
	var list []Statement
	read := func(name string, fresh, late int) {
		sql, args := le.verbatimQuery(outbox.ReadRequest{Due: 1}, fresh, late)
		list = append(list, Statement{name, sql, args[2:]})
	}
	le.trail.at = outbox.DueCursor{}
	read("from the start", 1000, 0)
	le.trail.at, le.trail.end = at, at
	read("with a lap", 1000, 1000)
	le.trail.end = outbox.DueCursor{}
	return list
}

// WithShard narrows the slots of a lease, as a resize would.
func WithShard(l outbox.Lease, lo, hi int) { l.(*lease).info.SlotLo, l.(*lease).info.SlotHi = lo, hi }

// Forget drops what the store has seen of its table.
func (s *Store) Forget() { s.forget() }

// Explain returns the plan of a statement.
func Explain(ctx context.Context, q querier, st Statement) ([]string, error) {
	rows, err := q.Query(ctx, "EXPLAIN (COSTS OFF) "+st.SQL, append([]any{pgx.QueryExecModeCacheDescribe}, st.Args...)...)
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", st.Name, err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
