package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// logger turns what happens into log lines: one per change of state, and a bounded
// number per second however much fails or flaps. Payloads, headers and secrets never
// appear.
type logger struct {
	slog *slog.Logger

	mu        sync.Mutex
	down      bool
	restore   bool
	downSince time.Time
	// Failures of messages must not crowd out the news that explains them.
	changes, failures budget
}

// linesPerSecond bounds the changes of state, and the failures beside them.
const linesPerSecond = 10

// MaskTenant hides tenants in the log. Set it as slog.HandlerOptions.ReplaceAttr, or call
// it from there.
func MaskTenant(_ []string, a slog.Attr) slog.Attr {
	if a.Key == tenantAttr && a.Value.String() != "" {
		a.Value = slog.StringValue("[masked]")
	}
	return a
}

const tenantAttr = "tenant_id"

func (l *logger) info(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.change(ctx, slog.LevelInfo, msg, attrs...)
}

func (l *logger) warn(ctx context.Context, msg string, attrs ...slog.Attr) {
	l.change(ctx, slog.LevelWarn, msg, attrs...)
}

func (l *logger) change(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	if suppressed, ok := l.spend(&l.changes); ok {
		l.emit(ctx, level, msg, suppressed, attrs)
	}
}

func (l *logger) emit(ctx context.Context, level slog.Level, msg string, suppressed int, attrs []slog.Attr) {
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	l.slog.LogAttrs(ctx, level, msg, attrs...)
}

func (l *logger) spend(b *budget) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.spend(time.Now())
}

// A budget bounds lines per second.
type budget struct {
	window     time.Time
	lines      int
	suppressed int
}

// spend asks for a line, and says how many were left out since the last one.
func (b *budget) spend(now time.Time) (suppressed int, ok bool) {
	if now.Sub(b.window) >= time.Second {
		b.window, b.lines = now, 0
	}
	if b.lines >= linesPerSecond {
		b.suppressed++
		return 0, false
	}
	b.lines++
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}

// databaseDown and databaseUp log the transitions only: an outage is one event, not
// one per poll.
func (l *logger) databaseDown(ctx context.Context, op string, err error) {
	l.mu.Lock()
	first := !l.down
	if first {
		l.down, l.downSince = true, time.Now()
	}
	l.mu.Unlock()
	if first {
		l.warn(ctx, "database unavailable; retrying", slog.String("op", op), errAttr(err))
	}
}

// restored logs once that nothing will be relayed until a person confirms.
func (l *logger) restored(ctx context.Context, err error) {
	l.mu.Lock()
	first := !l.restore
	l.restore = true
	l.mu.Unlock()
	if first {
		l.change(ctx, slog.LevelError, "restored database; nothing is relayed until it is confirmed", errAttr(err))
	}
}

func (l *logger) databaseUp(ctx context.Context) {
	l.mu.Lock()
	was, since := l.down, l.downSince
	l.down, l.restore = false, false
	l.mu.Unlock()
	if was {
		l.info(ctx, "database available again", slog.Duration("elapsed", time.Since(since)))
	}
}

func (l *logger) circuit(ctx context.Context, t turn) {
	if t.open {
		l.warn(ctx, "destination unavailable; its messages wait", slog.String("route", t.route), slog.Duration("probe_in", t.wait),
			slog.String("err", t.err))
		return
	}
	l.info(ctx, "destination available again", slog.String("route", t.route))
}

// stopped: a person must look, and resume it.
func (l *logger) stopped(ctx context.Context, p stop) {
	l.change(ctx, slog.LevelError, "route paused; its messages wait until it is resumed", slog.String("route", p.route), slog.String("err", p.reason))
}

// settled logs failures and deaths with the words of the runbook. The table is in every
// line already.
func (l *logger) settled(ctx context.Context, meta *outbox.Meta, o outbox.Outcome) {
	var level slog.Level
	var msg string
	switch o.Kind {
	case outbox.Retry:
		level, msg = slog.LevelWarn, "delivery failed; will retry"
	case outbox.Dead:
		level, msg = slog.LevelError, "message is dead"
	default:
		return
	}
	suppressed, ok := l.spend(&l.failures)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("topic", meta.Topic), slog.String("event_id", meta.EventID.String()),
		slog.String(tenantAttr, meta.TenantID), slog.Int64("sequence", meta.Sequence), slog.Int("attempts", o.Attempts+o.Spent),
		slog.String("err", o.Error),
	}
	if o.Kind == outbox.Retry {
		attrs = append(attrs, slog.Duration("in", o.Delay))
	} else {
		attrs = append(attrs, slog.String("reason", o.Reason))
	}
	l.emit(ctx, level, msg, suppressed, attrs)
}

func errAttr(err error) slog.Attr {
	return slog.String("err", outbox.SanitizeError(err, nil, 0))
}
