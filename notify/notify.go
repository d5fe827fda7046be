// Package notify tells somebody when messages die.
//
// A [Notifier] listens to relays through their hooks, gathers deaths for a while, and
// hands one summary of them to a dispatcher, such as a webhook sink, or to the log. A
// thousand deaths are one notification, with a count for each topic and reason and a few
// of the messages. Memory is bounded, and a destination that is down delays no delivery
// and loses no count: the summary is sent again, and what dies meanwhile is in the next.
//
// A notification is at least once: receivers deduplicate on its event id. It is best
// effort in one respect: a process that crashes takes what it has gathered with it. The
// dead messages themselves are in the table, and the gauge outbox_dead counts them, so
// alert on that for what must not be missed. Payloads, headers, keys and tenants are
// never in a notification; error texts are those that are safe to store.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// Topic is the topic of notifications.
const Topic = "outbox.message.died.v1"

// Config tunes New. To or Log is required.
type Config struct {
	// To receives notifications as messages of topic Topic, whose payload is a
	// [Summary] as JSON: a webhooksink.Sink, or any other.
	To outbox.Dispatcher
	// Log receives them as one line each, and says when To fails.
	Log *slog.Logger
	// Gather is how long the first death waits for others. Defaults to 10 s.
	Gather time.Duration
	// Timeout bounds one attempt to notify. Defaults to 15 s.
	Timeout time.Duration
	// Flush bounds the last attempt, when Run is told to stop. Defaults to 5 s.
	Flush time.Duration
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.Gather, 10 * time.Second}, {&c.Timeout, 15 * time.Second}, {&c.Flush, 5 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	return c
}

// A Notifier gathers deaths and tells of them. Create it with New, give its Hooks to
// relays, and let Run run beside them. Its methods are safe for concurrent use; Run may
// be called once.
type Notifier struct {
	cfg    Config
	deaths deaths
}

// New makes a notifier. It does no I/O.
func New(cfg Config) (*Notifier, error) {
	if cfg.To == nil && cfg.Log == nil {
		return nil, outbox.ErrInvalidConfig.With("to", "is required, unless there is a log")
	}
	n := &Notifier{cfg: cfg.withDefaults()}
	n.deaths.arrived = make(chan struct{}, 1)
	return n, nil
}

// Hooks returns the hooks that tell n of deaths, for any number of relays. They never
// block. Chain them with others by metrics.Chain.
func (n *Notifier) Hooks() relay.Hooks {
	return relay.Hooks{Settled: func(meta *outbox.Meta, outcome outbox.Outcome) {
		if outcome.Kind == outbox.Dead {
			n.deaths.add(meta, outcome, time.Now())
		}
	}}
}

// errFlush ends the last attempts.
var errFlush = errors.New("no time left to notify")

// Run notifies until ctx ends, then tells of what it has gathered so far, for at most
// Config.Flush, and returns nil. End it after the relays have stopped: they may still
// report deaths while they drain.
func (n *Notifier) Run(ctx context.Context) error {
	var unsent *Summary
	for ctx.Err() == nil {
		select {
		case <-n.deaths.arrived:
			pause(ctx, n.cfg.Gather)
			unsent = n.deliver(ctx, n.deaths.take())
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), n.cfg.Flush, errFlush)
	defer cancel()
	for _, s := range []*Summary{unsent, n.deaths.take()} {
		if s = n.deliver(last, s); s != nil {
			n.warn(ctx, "dead-letter notification is lost: the process ends", errFlush, slog.Int("count", s.Count))
		}
	}
	return nil
}

// deliver sends a summary until somebody has it, and returns it when ctx ends before. It
// stays as it is under its id, or a receiver that had it already would miss what was
// added: what dies meanwhile is in the next one.
func (n *Notifier) deliver(ctx context.Context, s *Summary) *Summary {
	if s == nil {
		return nil
	}
	n.log(ctx, s)
	var failing time.Time // since when
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		err := n.send(ctx, s)
		if err == nil {
			n.recovered(ctx, failing)
			return nil
		}
		if outbox.IsPermanent(err) {
			n.warn(ctx, "dead-letter notification was refused and is dropped", err, slog.Int("count", s.Count))
			return nil
		}
		if failing.IsZero() && ctx.Err() == nil {
			failing = time.Now()
			n.warn(ctx, "dead-letter notification failed; will retry", err, slog.Int("count", s.Count))
		}
		_, asked := outbox.Classify(err)
		pause(ctx, max(wait, min(asked, time.Hour)))
	}
	return s
}

func (n *Notifier) send(ctx context.Context, s *Summary) error {
	if n.cfg.To == nil {
		return nil
	}
	payload, err := json.Marshal(s)
	if err != nil {
		return outbox.Permanent(fmt.Errorf("write the summary: %w", err)) // cannot happen: it holds text and numbers
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.cfg.Timeout, fmt.Errorf("no answer within %s", n.cfg.Timeout))
	defer cancel()
	return n.cfg.To.Dispatch(ctx, outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Topic: Topic, EventID: s.ID, EventType: Topic, ContentType: "application/json", Attempts: 1, CreatedAt: s.Until,
		},
		Payload: payload,
	})
}

// log is at error level: somebody must look.
func (n *Notifier) log(ctx context.Context, s *Summary) {
	if n.cfg.Log == nil {
		return
	}
	attrs := []slog.Attr{slog.Int("count", s.Count), slog.Time("since", s.Since)}
	for _, g := range s.Groups[:min(len(s.Groups), loggedGroups)] {
		attrs = append(attrs, slog.Group(g.Table+"/"+g.Topic+"/"+g.Reason,
			slog.Int("count", g.Count), slog.String("event_id", g.Messages[0].EventID.String()), slog.String("err", g.Messages[0].Error)))
	}
	n.cfg.Log.LogAttrs(ctx, slog.LevelError, "messages are dead", attrs...)
}

// loggedGroups bounds a log line.
const loggedGroups = 5

func (n *Notifier) warn(ctx context.Context, msg string, err error, attrs ...slog.Attr) {
	if n.cfg.Log != nil {
		n.cfg.Log.LogAttrs(ctx, slog.LevelWarn, msg, append(attrs, slog.String("err", outbox.SanitizeError(err, nil, 0)))...)
	}
}

func (n *Notifier) recovered(ctx context.Context, failed time.Time) {
	if n.cfg.Log != nil && !failed.IsZero() {
		n.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "dead-letter notifications arrive again", slog.Duration("elapsed", time.Since(failed)))
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
