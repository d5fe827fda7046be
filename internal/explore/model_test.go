package explore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// The explorer runs on the in-memory store. These tests bind it to the others: whatever
// is done to both, they answer alike.

func TestSQLiteAnswersAsTheModelDoes(t *testing.T) {
	dir := t.TempDir()
	var files atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		file := filepath.Join(dir, fmt.Sprint(files.Add(1), ".db"))
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
		must(rt, err)
		defer db.Close()
		store, err := sqlitestore.New(db, sqlitestore.Config{})
		must(rt, err)
		must(rt, sqlitestore.Prepare(rt.Context(), db))
		_, err = store.Migrate(rt.Context())
		must(rt, err)
		compare(rt, true, store, nil, func(ctx context.Context, msgs []outbox.Message, commit bool) ([]int64, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			defer func() { _ = tx.Rollback() }() // after a commit it does nothing
			ids, err := store.EnqueueMany(ctx, tx, msgs)
			if err != nil || !commit {
				return ids, err
			}
			return ids, tx.Commit()
		})
	})
}

func TestPostgresAnswersAsTheModelDoes(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	var tables atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		table := fmt.Sprint("m", tables.Add(1), "_outbox")
		store, err := pgstore.New(pool, pgstore.Config{Table: table})
		must(rt, err)
		expire := func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "UPDATE "+table+"_lease SET expires_at = expires_at - interval '1 day'")
			return err
		}
		_, err = store.Migrate(rt.Context())
		must(rt, err)
		compare(rt, false, store, expire, func(ctx context.Context, msgs []outbox.Message, commit bool) (ids []int64, err error) {
			undone := errors.New("rolled back on purpose")
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if ids, err = store.EnqueueMany(ctx, tx, msgs); err == nil && !commit {
					err = undone
				}
				return err
			})
			if errors.Is(err, undone) {
				err = nil
			}
			return ids, err
		})
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A side is one of the two stores. Messages are known by names that both share: their
// sequences may differ where a transaction was rolled back.
type side struct {
	store   outbox.Store
	enqueue func(ctx context.Context, msgs []outbox.Message, commit bool) ([]int64, error)
	names   map[int64]string // by sequence
	ids     map[string]int64
	leases  []outbox.Lease // every one ever acquired
	// expire makes the present lease expire; nil where a lease of a microsecond does.
	// On PostgreSQL the lease also bounds how long a transaction may wait.
	expire func(ctx context.Context) error
}

// A pair does everything twice.
type pair struct {
	*rapid.T
	sides    [2]*side
	events   map[string]uuid.UUID
	names    []string          // committed, in order
	attempts map[string][2]int // attempts and replays, as last read
	brief    []bool            // by lease: it expires at once
	batches  int64
	made     int
}

// compare drives a store and the model through the same random history.
func compare(
	t *rapid.T, gapless bool, store outbox.Store, expire func(context.Context) error,
	enqueue func(context.Context, []outbox.Message, bool) ([]int64, error),
) {
	model, err := memstore.New(memstore.Config{Gapless: gapless})
	must(t, err)
	p := &pair{T: t, events: map[string]uuid.UUID{}, attempts: map[string][2]int{}}
	p.sides[0] = &side{store: model, enqueue: func(ctx context.Context, msgs []outbox.Message, commit bool) ([]int64, error) {
		tx := model.Begin()
		ids, err := model.EnqueueMany(ctx, tx, msgs)
		if err == nil && commit {
			return ids, tx.Commit()
		}
		return ids, errors.Join(err, tx.Rollback())
	}}
	p.sides[1] = &side{store: store, enqueue: enqueue, expire: expire}
	for _, s := range p.sides {
		s.names, s.ids = map[int64]string{}, map[string]int64{}
	}
	t.Repeat(map[string]func(*rapid.T){
		"enqueue": p.enqueue, "acquire": p.acquire, "release": p.release, "renew": p.renew, "recover": p.recover,
		"heads": p.heads, "read": p.read, "settle": p.settle, "record": p.record, "finish": p.finish,
		"replay": p.replay, "purge": p.purge, "": p.inspect,
	})
}

// both runs do on each side and wants the same answer.
func (p *pair) both(what string, do func(s *side) (string, error)) {
	var answers [2]string
	for i, s := range p.sides {
		answer, err := do(s)
		if err != nil {
			answer = "error: " + kind(err)
		}
		answers[i] = answer
	}
	if answers[0] != answers[1] {
		p.Fatalf("%s: the model says %s\nthe store says %s", what, answers[0], answers[1])
	}
}

// kind is what callers can tell about an error.
func kind(err error) string {
	for _, known := range []error{outbox.ErrLeaseHeld, outbox.ErrLeaseLost, outbox.ErrNotFound, outbox.ErrEventIDConflict} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

func (s *side) name(sequence int64) string { return s.names[sequence] }

func (s *side) list(sequences []int64) string {
	names := make([]string, len(sequences))
	for i, id := range sequences {
		names[i] = s.name(id)
	}
	return strings.Join(names, " ")
}

func (p *pair) enqueue(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "messages")
	commit := rapid.IntRange(0, 4).Draw(t, "commit") > 0
	var msgs []outbox.Message
	var names []string
	for range n {
		p.made++
		name := fmt.Sprint("m", p.made)
		p.events[name] = uuid.New()
		msg := outbox.Message{
			Topic: topic, Key: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), EventID: p.events[name], Payload: []byte(`{"n":1}`),
		}
		if rapid.IntRange(0, 5).Draw(t, "scheduled") == 0 {
			msg.AvailableAt = time.Now().Add(time.Hour)
		}
		msgs, names = append(msgs, msg), append(names, name)
	}
	p.both("enqueue", func(s *side) (string, error) {
		ids, err := s.enqueue(t.Context(), msgs, commit)
		for i, id := range ids {
			if commit && err == nil {
				s.names[id], s.ids[names[i]] = names[i], id
			}
		}
		return fmt.Sprint(len(ids)), err
	})
	if commit {
		p.names = append(p.names, names...)
	}
}

// acquire takes the lease: for good, or so that it has expired before anybody else asks.
func (p *pair) acquire(t *rapid.T) {
	brief := rapid.IntRange(0, 2).Draw(t, "brief") > 0
	instance := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "instance")
	taken := false
	p.both("acquire", func(s *side) (string, error) {
		ttl := time.Hour
		if brief && s.expire == nil {
			ttl = time.Microsecond
		}
		l, err := s.store.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: ttl})
		if err != nil {
			return "", err
		}
		taken = true
		s.leases = append(s.leases, l)
		return fmt.Sprint(l.Info().Epoch, l.Info().Shards, s.name(l.Info().Top)), s.expired(t.Context(), brief)
	})
	if taken {
		p.brief = append(p.brief, brief)
		p.batches = 1000 * int64(len(p.brief)) // numbers are the epoch's own
	}
	p.tick()
	if taken {
		p.adopt(t, len(p.brief)-1)
	}
}

func (s *side) expired(ctx context.Context, brief bool) error {
	if !brief || s.expire == nil {
		return nil
	}
	return s.expire(ctx)
}

// tick lets enough time pass for every clock to notice.
func (p *pair) tick() { <-time.After(2 * time.Millisecond) }

// lease draws the present lease, mostly, or one that was lost.
func (p *pair) lease(t *rapid.T) int {
	n := len(p.sides[0].leases)
	if n == 0 {
		t.Skip("no lease yet")
	}
	if rapid.IntRange(0, 7).Draw(t, "stale") == 0 {
		return rapid.IntRange(0, n-1).Draw(t, "lease")
	}
	return n - 1
}

func (p *pair) release(t *rapid.T) {
	i := p.lease(t)
	p.both("release", func(s *side) (string, error) { return "", s.leases[i].Release(t.Context(), 0) })
}

func (p *pair) renew(t *rapid.T) {
	i, draining := p.lease(t), rapid.Bool().Draw(t, "draining")
	p.both("renew", func(s *side) (string, error) {
		r, err := s.leases[i].Renew(t.Context(), outbox.Renewal{Draining: draining})
		if err == nil {
			err = s.expired(t.Context(), p.brief[i])
		}
		return fmt.Sprint(r.Paused), err // how often a store nudges is its own business
	})
	p.tick()
}

// recover adopts what earlier owners left, before anything else is recorded, as the
// engine does.
func (p *pair) recover(t *rapid.T) {
	i := p.lease(t)
	if p.batches > 1000*int64(len(p.brief)) {
		t.Skip("too late to recover")
	}
	p.adopt(t, i)
}

// adopt recovers under a lease. Every new owner does so first: who is blamed for a batch
// when one did not is where stores differ.
func (p *pair) adopt(t *rapid.T, i int) {
	adopted := make(map[*side][]int64)
	p.both("recover", func(s *side) (string, error) {
		orphans, err := s.leases[i].Recover(t.Context())
		var list []string
		for _, o := range orphans {
			adopted[s] = append(adopted[s], o.No)
			list = append(list, fmt.Sprint(s.list(slices.Sorted(slices.Values(o.IDs))), " crashes ", o.Crashes, " lost ", o.Lost, " solo ", o.Solo, " beat ", o.Beat))
		}
		slices.Sort(list)
		return strings.Join(list, "; "), err
	})
	// Stores number what they adopt as they like. It is finished at once, as the engine
	// does with what was not lost.
	p.both("finish the adopted", func(s *side) (string, error) {
		return "", s.step(t, i, outbox.Step{Done: adopted[s]})
	})
}

func (p *pair) heads(t *rapid.T) {
	i := p.lease(t)
	p.both("heads", func(s *side) (string, error) {
		heads, err := s.leases[i].Heads(t.Context(), 0, 100)
		text := ""
		for _, h := range heads {
			text += fmt.Sprint(s.name(h.Sequence), h.Key, h.Dead, " ")
		}
		return text, err
	})
}

func (p *pair) read(t *rapid.T) {
	i := p.lease(t)
	limit, due := rapid.IntRange(0, 10).Draw(t, "limit"), rapid.IntRange(0, 1).Draw(t, "due")*100
	all := rapid.Bool().Draw(t, "all")
	var some []string
	if len(p.names) > 0 {
		some = rapid.SliceOfN(rapid.SampledFrom(p.names), 0, 3).Draw(t, "ids")
	}
	after := ""
	if len(p.names) > 0 && rapid.Bool().Draw(t, "after") {
		after = rapid.SampledFrom(p.names).Draw(t, "from")
	}
	rewind, sweep := rapid.Bool().Draw(t, "rewind"), rapid.Bool().Draw(t, "sweep")
	p.tick()
	p.both("read", func(s *side) (string, error) {
		req := outbox.ReadRequest{After: s.ids[after], Limit: limit, Due: due, All: all}
		for _, name := range some {
			req.IDs = append(req.IDs, s.ids[name])
		}
		if rewind {
			req.Rewind = &outbox.Rewind{After: 0, To: 1 << 40, Limit: 100, Keys: []string{"a"}}
		}
		if sweep {
			req.Sweep = &outbox.Range{From: 0, To: 1 << 40}
		}
		page, err := s.leases[i].Read(t.Context(), req)
		if err != nil {
			return "", err
		}
		for _, r := range append(slices.Clone(page.Fresh), page.Others...) {
			p.attempts[s.name(r.Sequence)] = [2]int{r.Attempts, r.Replays}
		}
		var strays []string
		for _, stray := range page.Strays {
			strays = append(strays, s.name(stray.Sequence))
		}
		return fmt.Sprintln("fresh", s.records(page.Fresh, false), "\nothers", s.records(page.Others, true), "\nseen", s.list(page.Seen),
			"last", s.name(page.Last), "due", page.Due, "rewound", page.Rewound, "strays", strays), nil
	})
}

// records describes messages, sorted where their order is free.
func (s *side) records(list []*outbox.Record, free bool) string {
	var texts []string
	for _, r := range list {
		texts = append(texts, fmt.Sprintf("%s key=%s attempts=%d crashes=%d replays=%d due=%t error=%q %s",
			s.name(r.Sequence), r.Key, r.Attempts, r.Crashes, r.Replays, r.Due, r.LastError, r.Payload))
	}
	if free {
		slices.Sort(texts)
	}
	return strings.Join(texts, ", ")
}

// settle gives some messages an outcome, as of their last reading or of an older one.
func (p *pair) settle(t *rapid.T) {
	i := p.lease(t)
	if len(p.names) == 0 {
		t.Skip("no messages")
	}
	var names []string
	var outcomes []outbox.Outcome
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(p.names), 1, 3, rapid.ID).Draw(t, "messages") {
		o := outbox.Outcome{
			Kind: rapid.SampledFrom([]outbox.OutcomeKind{outbox.Published, outbox.Published, outbox.Retry, outbox.Dead, outbox.Deferred}).Draw(t, "kind"),
		}
		o.Attempts, o.Replays = p.attempts[name][0], p.attempts[name][1]
		if o.Kind != outbox.Deferred {
			o.Spent = 1
		}
		if o.Kind == outbox.Retry || o.Kind == outbox.Deferred {
			o.Delay = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "delay")
		}
		if o.Kind == outbox.Retry || o.Kind == outbox.Dead {
			o.Error = "no"
		}
		if o.Kind == outbox.Dead {
			o.Reason = outbox.DeadPermanent
		}
		names, outcomes = append(names, name), append(outcomes, o)
	}
	remove := rapid.IntRange(0, 5).Draw(t, "delete") == 0
	times := rapid.IntRange(1, 2).Draw(t, "times") // a step may be sent again
	p.tick()
	for range times {
		p.both("settle", func(s *side) (string, error) {
			step := outbox.Step{Delete: remove}
			for k, o := range outcomes {
				o.Sequence = s.ids[names[k]]
				step.Outcomes = append(step.Outcomes, o)
			}
			return "", s.leases[i].Step(t.Context(), step)
		})
	}
	p.tick()
}

// record records a batch of open messages that no other batch has.
func (p *pair) record(t *rapid.T) {
	i := p.lease(t)
	free := p.free()
	if len(free) == 0 {
		t.Skip("nothing to record")
	}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(free), 1, 3, rapid.ID).Draw(t, "messages")
	solo, queued := len(names) == 1 && rapid.Bool().Draw(t, "solo"), rapid.Bool().Draw(t, "queued")
	started, beat := rapid.Bool().Draw(t, "start"), rapid.Bool().Draw(t, "beat")
	p.batches++
	p.tick()
	p.both("record", func(s *side) (string, error) {
		b := outbox.Batch{No: p.batches, Solo: solo, Queued: queued}
		for _, name := range names {
			b.IDs = append(b.IDs, s.ids[name])
		}
		if err := s.leases[i].Step(t.Context(), outbox.Step{Record: []outbox.Batch{b}}); err != nil {
			return "", err
		}
		if queued && started {
			if err := s.step(t, i, outbox.Step{Start: []int64{b.No}}); err != nil {
				return "", err
			}
		}
		if solo && beat {
			return "", s.step(t, i, outbox.Step{Beat: []int64{b.No}})
		}
		return "", nil
	})
}

// step writes a step that is not empty: an empty one need not ask anybody.
func (s *side) step(t *rapid.T, lease int, step outbox.Step) error {
	if step.Empty() {
		return nil
	}
	return s.leases[lease].Step(t.Context(), step)
}

// free are the messages that are due and in no batch, as the model knows.
func (p *pair) free() (names []string) {
	list, err := p.sides[0].store.(outbox.Inspector).List(p.Context(), outbox.Filter{Limit: outbox.MaxPage})
	must(p.T, err)
	for _, r := range list.Records {
		if s := r.Status(list.Now); (s == outbox.StatusPending || s == outbox.StatusRetrying) && !r.AvailableAt.After(list.Now) {
			names = append(names, p.sides[0].name(r.Sequence))
		}
	}
	slices.Sort(names)
	return names
}

// finish ends a batch.
func (p *pair) finish(t *rapid.T) {
	i := p.lease(t)
	base := 1000 * int64(len(p.sides[0].leases))
	if p.batches <= base {
		t.Skip("no batches")
	}
	no := rapid.Int64Range(base+1, p.batches).Draw(t, "batch")
	p.both("finish", func(s *side) (string, error) {
		return "", s.leases[i].Step(t.Context(), outbox.Step{Done: []int64{no}})
	})
}

func (p *pair) replay(t *rapid.T) {
	if len(p.names) == 0 {
		t.Skip("no messages")
	}
	name := rapid.SampledFrom(p.names).Draw(t, "message")
	p.tick()
	p.both("replay", func(s *side) (string, error) {
		effect, err := s.store.(outbox.Operator).Apply(t.Context(), outbox.Action{
			Verb: outbox.VerbReplay, EventID: p.events[name], Actor: "ada", Reason: "again",
		})
		return fmt.Sprint(effect), err
	})
	p.tick()
}

func (p *pair) purge(t *rapid.T) {
	req := outbox.PurgeRequest{
		Published: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "published"),
		Dead:      rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Hour}).Draw(t, "dead"), Limit: 100,
	}
	p.tick()
	p.both("purge", func(s *side) (string, error) {
		result, err := s.store.(outbox.Purger).Purge(t.Context(), req)
		return fmt.Sprint(result), err
	})
}

// inspect wants the same messages in the same states.
func (p *pair) inspect(t *rapid.T) {
	p.both("state", func(s *side) (string, error) {
		list, err := s.store.(outbox.Inspector).List(t.Context(), outbox.Filter{OldestFirst: true, Limit: outbox.MaxPage})
		if err != nil {
			return "", err
		}
		text := ""
		for _, r := range list.Records {
			text += fmt.Sprintf("%s %s attempts=%d crashes=%d replays=%d %s %q\n",
				s.name(r.Sequence), r.Status(list.Now), r.Attempts, r.Crashes, r.Replays, r.DeadReason, r.LastError)
		}
		return text, nil
	})
}
