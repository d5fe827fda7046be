package pgstore

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox"
)

// Step settles outcomes and records batches: one fenced statement, one round trip.
func (l *lease) Step(ctx context.Context, step outbox.Step) error {
	if step.Empty() {
		return nil
	}
	if l.verbatim {
		return l.s.explain("step", l.stepVerbatim(ctx, &step))
	}
	statement, args, err := l.stepQuery(&step)
	if err != nil {
		return l.s.explain("step", err)
	}
	var held int
	var ignored string
	err = again(func() error { return l.s.pool.QueryRow(ctx, statement, args...).Scan(&held, &ignored) })
	if err == nil && held == 0 {
		err = l.lost(ctx)
	}
	return l.s.explain("step", err)
}

// stepQuery chooses the statement. Messages that were published on their first
// generation settle in bulk, by range when their sequences are dense; everything
// else has a value per message and goes through arrays.
func (l *lease) stepQuery(step *outbox.Step) (string, []any, error) {
	bulk, rest := split(step.Outcomes, step.Delete)
	args := l.fenced(batchArgs(step)...)
	if len(rest)+len(step.Start)+len(step.Beat) > 0 {
		arrays, err := outcomeArgs(rest)
		args = append(append(args, bulk, orEmpty(step.Start), orEmpty(step.Beat)), arrays...)
		return pick(step.Delete, l.sql.StepDeleteMixed, l.sql.StepKeepMixed), args, err
	}
	if lo, hi, ok := dense(bulk); ok {
		return pick(step.Delete, l.sql.StepDeleteRun, l.sql.StepKeepRun), append(args, lo, hi), nil
	}
	return pick(step.Delete, l.sql.StepDeleteAny, l.sql.StepKeepAny), append(args, bulk), nil
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// split separates the outcomes that the bulk statements can express.
func split(outcomes []outbox.Outcome, remove bool) (bulk []int64, rest []outbox.Outcome) {
	bulk = make([]int64, 0, len(outcomes))
	for _, o := range outcomes {
		if ordinary(o, remove) {
			bulk = append(bulk, o.Sequence)
		} else {
			rest = append(rest, o)
		}
	}
	return bulk, rest
}

// ordinary reports whether an outcome has no value of its own.
func ordinary(o outbox.Outcome, remove bool) bool {
	return o.Kind == outbox.Published && o.Replays == 0 && (remove || o.Spent == 1 && o.RoutesDone == nil)
}

// dense reports whether ids are every integer between two: then a range is an
// exact set.
func dense(ids []int64) (lo, hi int64, ok bool) {
	if len(ids) == 0 {
		return 0, 0, false
	}
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] != ids[i-1]+1 {
			return 0, 0, false
		}
	}
	return ids[0], ids[len(ids)-1], true
}

// batchArgs are the parameters about batches that every step has.
func batchArgs(step *outbox.Step) []any {
	n := len(step.Record)
	numbers, ids, crashes := make([]int64, n), make([]string, n), make([]int16, n)
	flying, solo := make([]bool, n), make([]bool, n)
	for i, b := range step.Record {
		numbers[i], ids[i], crashes[i] = b.No, multirange(b.IDs), int16(b.Crashes)
		flying[i], solo[i] = !b.Queued, b.Solo
	}
	return []any{orEmpty(step.Done), numbers, ids, crashes, flying, solo}
}

// multirange writes ids in PostgreSQL's run-length form: {[1,4),[7,8)}.
func multirange(ids []int64) string {
	if !slices.IsSorted(ids) {
		ids = slices.Sorted(slices.Values(ids))
	}
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(ids); {
		end := i + 1
		for end < len(ids) && ids[end] <= ids[end-1]+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('[')
		b.WriteString(strconv.FormatInt(ids[i], 10))
		b.WriteByte(',')
		b.WriteString(strconv.FormatInt(ids[end-1]+1, 10))
		b.WriteByte(')')
		i = end
	}
	b.WriteByte('}')
	return b.String()
}

// outcomeArgs are the parameters about outcomes with a value per message.
func outcomeArgs(outcomes []outbox.Outcome) ([]any, error) {
	n := len(outcomes)
	sequences, delays, took := make([]int64, n), make([]int64, n), make([]int64, n)
	kinds, replays := make([]int16, n), make([]int16, n)
	attempts, spent := make([]int32, n), make([]int32, n)
	reasons, errors, routes := make([]string, n), make([]string, n), make([]string, n)
	done := make([]*string, n)
	for i, o := range outcomes {
		sequences[i], kinds[i], replays[i] = o.Sequence, int16(o.Kind), int16(o.Replays)
		attempts[i], spent[i] = int32(o.Attempts), int32(o.Spent)
		delays[i], took[i] = o.Delay.Microseconds(), o.Took.Microseconds()
		reasons[i], errors[i], routes[i] = o.Reason, o.Error, o.Route
		if o.RoutesDone != nil {
			text, err := json.Marshal(o.RoutesDone)
			if err != nil {
				return nil, err
			}
			routesDone := string(text)
			done[i] = &routesDone
		}
	}
	return []any{sequences, kinds, replays, attempts, spent, delays, reasons, errors, routes, took, done}, nil
}
