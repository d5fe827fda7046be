package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	followEvery = time.Second
	// followPages bounds what one look reads. More than that at once is cut, and
	// said so.
	followPages = 10
	// followBack is how far each look reaches back behind the newest message, by
	// sequence and by time: transactions commit in another order than they
	// enqueue.
	followBack     = 1000
	followBackTime = time.Minute
)

// A follower prints the messages of one table that begin to match.
type follower struct {
	app  *app
	s    store
	f    outbox.Filter
	seen map[followed]bool
	// top is the highest sequence so far, last the time of the last look.
	top  int64
	last time.Time
}

// followed is a message in one of its lives: one that is replayed and dies again is
// news.
type followed struct {
	sequence int64
	replays  int
}

// follow prints what is there, and then what is new until ctx ends, which is its
// ordinary end.
func (a *app) follow(ctx context.Context, stores []store, sel selection) error {
	followers := make([]*follower, len(stores))
	for i, s := range stores {
		f, err := sel.filter(ctx, s)
		if err != nil {
			return err
		}
		followers[i] = &follower{app: a, s: s, f: f, seen: map[followed]bool{}}
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		for _, f := range followers {
			if err := f.look(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("follow %s: %w", f.s.Table(), err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look prints what matches and was not printed yet, the oldest first.
func (f *follower) look(ctx context.Context) error {
	found, at, err := f.read(ctx)
	if err != nil {
		return err
	}
	first := f.last.IsZero()
	seen := make(map[followed]bool, len(found))
	for i, r := range slices.Backward(found) {
		id := followed{r.Sequence, r.Replays}
		seen[id] = true
		f.top = max(f.top, r.Sequence)
		if f.seen[id] || first && i >= f.f.Limit {
			continue
		}
		if err := f.print(r, at); err != nil {
			return err
		}
	}
	f.seen, f.last = seen, at
	return nil
}

// read returns what may be new, the newest first. The first look reads as far back as
// the second will, so that nothing old is taken for new.
func (f *follower) read(ctx context.Context) (found []*outbox.Record, at time.Time, err error) {
	q := f.f
	q.Limit = outbox.MaxPage
	switch {
	case f.last.IsZero():
	case q.Status == outbox.StatusDead || q.Status == outbox.StatusDiscarded:
		// An old message may die: the time of death tells what is new.
		if back := f.last.Add(-followBackTime); back.After(q.Since) {
			q.Since = back
		}
	default:
		q.After = max(q.After, f.top-followBack)
	}
	for range followPages {
		page, err := f.s.List(ctx, q)
		if err != nil {
			return nil, at, err
		}
		if at.IsZero() {
			at = page.Now
		}
		found = append(found, page.Records...)
		if q.Before = page.Next; page.Next == 0 {
			return found, at, nil
		}
	}
	if !f.last.IsZero() {
		f.app.warnf("%s: more than %d at once, the older ones are not shown", f.s.Table(), followPages*outbox.MaxPage)
	}
	return found, at, nil
}

// print prints one line. Its columns do not depend on what comes next.
func (f *follower) print(r *outbox.Record, at time.Time) error {
	m := newMessage(f.s.Table(), r, at)
	if f.app.json {
		return f.app.printJSON(m)
	}
	when := r.CreatedAt
	if !r.DeadAt.IsZero() {
		when = r.DeadAt
	}
	_, err := fmt.Fprintf(f.app.out, "%s  %s  %-9s  %s  %s  %s  %s\n", when.UTC().Format("2006-01-02T15:04:05Z"), m.EventID, m.Status,
		printable(m.Table), printable(m.Topic), printable(orDash(m.Key)), printable(orDash(ellipsis(m.LastError, 60))))
	return err
}
