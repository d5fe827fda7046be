package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-outbox/outbox/internal/failpoint"
)

// A wrongClock is a wrong wall clock of a process, as somebody set it. All times of the
// product are the database's, so it explains nothing.
type wrongClock struct {
	process  string
	step     time.Duration
	from, to time.Time // by the right clock; a zero to is the end
}

// stepClock sets the wall clock of a relay off by hours, to either side, and half of the
// times never sets it right again.
func (r *Run) stepClock(ctx context.Context, dice *rand.Rand) Fault {
	p, busy := r.victim(ctx, dice)
	d := between(dice, time.Hour, 24*time.Hour).Truncate(time.Second)
	if dice.IntN(2) == 0 {
		d = -d
	}
	r.setClock(p, d)
	wait(ctx, between(dice, 300*time.Millisecond, 2*time.Second))
	detail := fmt.Sprintf("%s by %s", p.Name(), d)
	if dice.IntN(2) == 0 {
		r.setClock(p, 0)
		detail += " and back"
	}
	return Fault{Targets: []string{p.Name()}, Hit: busy, Detail: detail}
}

func (r *Run) setClock(p *Position, d time.Duration) {
	at := time.Now()
	for i := range r.clocks {
		if c := &r.clocks[i]; c.process == p.Name() && c.to.IsZero() {
			c.to = at
		}
	}
	r.arm(p, failpoint.Clock+d.String())
	if d != 0 {
		r.clocks = append(r.clocks, wrongClock{process: p.Name(), step: d, from: at})
	}
}

// rightTime is when a line was logged by a process whose clock may have been wrong. Steps
// are hours and runs are minutes, so there is no doubt.
func (r *Run) rightTime(process string, logged time.Time) time.Time {
	const tolerance = time.Second
	for _, c := range r.clocks {
		right := logged.Add(-c.step)
		if c.process == process && right.After(c.from.Add(-tolerance)) && (c.to.IsZero() || right.Before(c.to.Add(tolerance))) &&
			right.Before(time.Now().Add(tolerance)) {
			return right
		}
	}
	return logged
}
