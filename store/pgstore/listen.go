package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the notification channel of a table. Names that would be too long are
// replaced by a hash: the server would cut them.
func (n name) channel() string {
	c := n.schema + "." + n.table
	if len(c) <= 63 {
		return c
	}
	h := fnv.New128a()
	h.Write([]byte(c)) // never fails
	return "outbox_" + hex.EncodeToString(h.Sum(nil))
}

// Listen calls wake when a Notifier has announced messages, until ctx ends. It uses
// a connection of its own. Notifications are hints: polling alone is correct.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	cfg := s.cfg.Listen
	if cfg == nil {
		cfg = s.pool.Config().ConnConfig
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer closeDetached(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.name.channel()}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	wake() // what was announced before LISTEN
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen: %w", errors.Join(context.Cause(ctx), err))
		}
		wake()
	}
}

// closeDetached closes a connection whose context may have ended.
func closeDetached(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing is left to be done with it
}

// A Notifier announces committed messages to relays in other processes. It sends at
// most one notification per Interval, outside every business transaction, because
// NOTIFY inside one makes commits wait for one another. Make it with
// Store.Notifier; Run it once; Notify is safe for concurrent use.
type Notifier struct {
	s        *Store
	interval time.Duration
	kick     chan struct{}
}

// Notifier makes a notifier that sends at most once per interval; 0 means 5 ms.
func (s *Store) Notifier(interval time.Duration) *Notifier {
	if interval <= 0 {
		interval = 5 * time.Millisecond
	}
	return &Notifier{s: s, interval: interval, kick: make(chan struct{}, 1)}
}

// Notify says that a transaction with messages has committed. It never blocks and
// does no I/O.
func (n *Notifier) Notify() {
	select {
	case n.kick <- struct{}{}:
	default: // one is pending already, and it will do for both
	}
}

// Run sends notifications until ctx ends, and returns nil then. A notification that
// cannot be sent is dropped: relays poll.
func (n *Notifier) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.kick:
		}
		// The error is dropped on purpose: a lost hint costs one poll interval.
		_, _ = n.s.pool.Exec(ctx, n.s.base.sql.Notify, n.s.mode, n.s.name.channel())
		pause.Reset(n.interval)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}
