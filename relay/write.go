package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	maxStepRecords  = 8
	maxStepOutcomes = 10_000
	gatherFor       = time.Millisecond
	// maxStepTries is after how many failures of one step the shift gives up: the
	// lease may be fine and the step be what the database refuses.
	maxStepTries = 20
)

// taken is what a step carries, as the ledger knows it.
type taken struct {
	recorded []*batch
	finished results
	done     []*batch
	starts   []*batch
}

// writeLoop sends steps, one at a time: settles of a shard must not overtake each
// other, or a crash between two of them could repeat an earlier message of a key
// after a later one. It ends when flush is closed and nothing is left to write.
func (s *shift) writeLoop(ctx context.Context, flush <-chan struct{}) error {
	for {
		s.gather(ctx, flush)
		step, t := s.nextStep()
		if !step.Empty() {
			if err := s.send(ctx, step); err != nil {
				return err
			}
			s.stepped(ctx, t)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.writeKick:
		case <-flush:
			if !s.pending() {
				return nil
			}
		}
	}
}

// gather waits a moment while more outcomes are about to come: a step costs the
// database about the same for ten of them as for a thousand. Nothing waits when
// nothing else is in flight, so a single message is settled at once.
func (s *shift) gather(ctx context.Context, flush <-chan struct{}) {
	s.mu.Lock()
	l := s.ledger
	few := l.finished.len() > 0 && l.finished.len() < s.cfg.Batch && l.running+l.readyCount > 0 &&
		len(l.starts)+len(l.beats) == 0
	s.mu.Unlock()
	if !few {
		return
	}
	t := time.NewTimer(gatherFor)
	defer t.Stop()
	select {
	case <-t.C:
	case <-flush:
	case <-ctx.Done():
	}
}

func (s *shift) nextStep() (outbox.Step, taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.nextStep()
}

// pending reports whether there is anything to write.
func (s *shift) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger
	return len(l.unrecorded)+l.finished.len()+len(l.done)+len(l.starts)+len(l.beats) > 0
}

// nextStep collects what is finished and what was read.
func (l *ledger) nextStep() (outbox.Step, taken) {
	var t taken
	step := outbox.Step{Delete: l.cfg.DeleteOnPublish}

	t.finished = l.finished.cut(maxStepOutcomes, &l.spare)
	step.Outcomes = t.finished.outcomes
	for _, it := range t.finished.items {
		l.leave(it)
	}
	t.recorded, l.unrecorded = cut(l.unrecorded, maxStepRecords)
	for _, b := range t.recorded {
		if b.left > 0 { // else all of it was settled or dropped before it was dispatched
			step.Record = append(step.Record, b.record())
		}
	}
	t.done, l.done = l.done, nil
	for _, b := range t.done {
		step.Done = append(step.Done, b.no)
	}
	t.starts, l.starts = l.starts, nil
	for _, b := range t.starts {
		step.Start = append(step.Start, b.no)
	}
	step.Beat, l.beats = l.beats, nil
	return step, t
}

func cut[T any](s []T, n int) (head, tail []T) {
	if len(s) <= n {
		return s, nil
	}
	return s[:n:n], s[n:]
}

// send writes a step, again and again while the database is down and the lease may
// still be ours. A step that was applied without our knowing is applied once: every
// part of it is idempotent.
func (s *shift) send(ctx context.Context, step outbox.Step) error {
	retry := backoff{max: time.Second}
	for tries := 1; ; tries++ {
		start := time.Now()
		hit(atSettling)
		err := s.lease.Step(ctx, step)
		if err == nil {
			s.hooks.Stepped(s.table, len(step.Outcomes), len(step.Record), time.Since(start))
			return nil
		}
		if errors.Is(err, outbox.ErrLeaseLost) || ctx.Err() != nil {
			return err
		}
		s.hooks.DatabaseError(s.table, "step", err)
		s.log.databaseDown(ctx, "step", err)
		if tries == maxStepTries {
			return fmt.Errorf("give up after %d tries: %w", tries, err)
		}
		if !pause(ctx, retry.next()) {
			return err
		}
	}
}

// stepped runs when a step is durable: what was recorded may be dispatched, what
// was settled is forgotten.
func (s *shift) stepped(ctx context.Context, t taken) {
	hit(atStepped)
	s.mu.Lock()
	l := s.ledger
	l.settledAll(t.finished)
	l.retire(t.done)
	for _, b := range t.recorded {
		if !s.stopping {
			l.record(b)
		}
	}
	for _, b := range t.starts {
		close(b.startedCh)
	}
	if l.readyCount > 0 {
		s.workers.Signal()
	}
	s.mu.Unlock()
	kick(s.readKick)
	for i, it := range t.finished.items {
		s.settled(ctx, it, t.finished.outcomes[i])
	}
	space := t.finished.space()
	s.mu.Lock()
	l.spare = space
	s.mu.Unlock()
}

func (s *shift) settled(ctx context.Context, it *item, o outbox.Outcome) {
	if o.Kind == outbox.Published && s.hooks.Settled == nil {
		return
	}
	meta := it.rec.Meta(s.table)
	s.log.settled(ctx, &meta, o)
	if s.hooks.Settled != nil {
		s.hooks.Settled(&meta, o)
	}
}
