package explore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-outbox/outbox"
)

// How a call may go.
const (
	goes    = ""
	lost    = "answer lost" // it happens, and the caller is told that it failed
	failed  = "failed"      // it does not happen
	refused = "refused"     // by the sink
	delayed = "answer late" // it happens, and the answer waits at the gate again
)

// A gatedStore is the in-memory store as one process sees it.
type gatedStore struct{ p *proc }

func (s gatedStore) Table() string { return s.p.w.store.Table() }

func (s gatedStore) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	var l outbox.Lease
	err := s.p.call(ctx, "acquire", "", func() (err error) {
		l, err = s.p.w.store.Acquire(ctx, req)
		if err == nil {
			s.p.w.epoch = l.Info().Epoch
		}
		return err
	}, func() string { return describe(l) })
	if err != nil {
		return nil, err
	}
	return gatedLease{l, s.p}, nil
}

func describe(l outbox.Lease) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%+v", l.Info())
}

type gatedLease struct {
	outbox.Lease
	p *proc
}

// call runs fn when the gate opens, as the gate says. what it taught is only asked for
// when it happened.
func (p *proc) call(ctx context.Context, kind, what string, fn func() error, taught func() string) error {
	how, err := p.gate(ctx, kind, what)
	if err != nil {
		return err
	}
	if how == failed {
		p.note(kind, what, how)
		return errFailed
	}
	p.w.mu.Lock()
	err = fn()
	p.w.mu.Unlock()
	switch how {
	case lost:
		p.note(kind, what, how)
		return errLost
	case delayed:
		if _, gone := p.gate(ctx, kind+" answer", what); gone != nil {
			return gone
		}
	}
	if text := taught(); err == nil && text != "" || err != nil && !errors.Is(err, outbox.ErrLeaseHeld) {
		p.note(kind, what, fmt.Sprint(text, err))
	}
	return err
}

func (p *proc) note(kind, what, told string) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.learn("%s %s %s", kind, what, told)
}

func (l gatedLease) Recover(ctx context.Context) (orphans []outbox.Orphan, err error) {
	err = l.p.call(ctx, "recover", "", func() (err error) {
		orphans, err = l.Lease.Recover(ctx)
		for _, o := range orphans {
			l.p.records(o.IDs)
		}
		return err
	}, func() string { return fmt.Sprintf("%+v", orphans) })
	return orphans, err
}

func (l gatedLease) Heads(ctx context.Context, after int64, limit int) (heads []outbox.Head, err error) {
	err = l.p.call(ctx, "heads", "", func() (err error) {
		heads, err = l.Lease.Heads(ctx, after, limit)
		return err
	}, func() string { return fmt.Sprintf("%+v", heads) })
	return heads, err
}

func (l gatedLease) Read(ctx context.Context, req outbox.ReadRequest) (page outbox.Page, err error) {
	err = l.p.call(ctx, "read", "", func() (err error) {
		page, err = l.Lease.Read(ctx, req)
		return err
	}, func() string { return contents(page) })
	return page, err
}

func contents(page outbox.Page) string {
	if len(page.Fresh)+len(page.Others)+len(page.Strays) == 0 {
		return ""
	}
	text := ""
	for _, part := range [][]*outbox.Record{page.Fresh, page.Others} {
		for _, r := range part {
			text += fmt.Sprintf("%d %d %d %t,", r.Sequence, r.Attempts, r.Replays, r.Due)
		}
	}
	return fmt.Sprint(text, page.Strays)
}

func (l gatedLease) Step(ctx context.Context, step outbox.Step) error {
	what := stepText(step)
	return l.p.call(ctx, "step", what, func() error {
		err := l.Lease.Step(ctx, step)
		w := l.p.w
		if stale := l.Info().Epoch != w.epoch; stale != errors.Is(err, outbox.ErrLeaseLost) {
			w.fail("%s wrote in epoch %d while %d was current: %v", l.p.name, l.Info().Epoch, w.epoch, err)
		}
		for _, b := range step.Record {
			if err == nil {
				l.p.records(b.IDs)
			}
		}
		for _, o := range step.Outcomes {
			if o.Kind == outbox.Published && w.events[o.Sequence].accepted == 0 {
				w.fail("message %d was settled as published and never accepted", o.Sequence)
			}
		}
		return err
	}, func() string { return what })
}

func (p *proc) records(ids []int64) {
	for _, id := range ids {
		p.recorded[id] = true
	}
}

func stepText(s outbox.Step) string {
	text := ""
	for _, o := range s.Outcomes {
		text += fmt.Sprintf("%d:%s ", o.Sequence, o.Kind)
	}
	for _, b := range s.Record {
		text += fmt.Sprintf("batch%d%v ", b.No, b.IDs)
	}
	return text + fmt.Sprintf("done%v start%v beat%v", s.Done, s.Start, s.Beat)
}

func (l gatedLease) Renew(ctx context.Context, r outbox.Renewal) (renewed outbox.Renewed, err error) {
	err = l.p.call(ctx, "renew", "", func() (err error) {
		renewed, err = l.Lease.Renew(ctx, r)
		return err
	}, func() string {
		if renewed.Nudge == 0 {
			return ""
		}
		return fmt.Sprint(renewed)
	})
	return renewed, err
}

func (l gatedLease) Release(ctx context.Context, low int64) error {
	return l.p.call(ctx, "release", "", func() error { return l.Lease.Release(ctx, low) }, func() string { return "released" })
}
