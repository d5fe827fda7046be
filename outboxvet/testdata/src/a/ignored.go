package a

import (
	"context"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/jackc/pgx/v5"
)

var msg outbox.Message

func ignored(ctx context.Context, s *pgstore.Store, tx pgx.Tx, b *pgx.Batch) {
	s.Enqueue(ctx, tx, msg)              // want `the error of Enqueue is ignored`
	_, _ = s.Enqueue(ctx, tx, msg)       // want `the error of Enqueue is ignored`
	n, _ := s.Enqueue(ctx, tx, msg)      // want `the error of Enqueue is ignored`
	s.EnqueueMany(ctx, tx, nil)          // want `the error of EnqueueMany is ignored`
	go s.Enqueue(ctx, tx, msg)           // want `the error of Enqueue is ignored`
	defer s.Enqueue(ctx, tx, msg)        // want `the error of Enqueue is ignored`
	_ = s.QueueEnqueue(ctx, b, msg, nil) // want `the error of QueueEnqueue is ignored`
	(s.Enqueue(ctx, tx, msg))            // want `the error of Enqueue is ignored`
	publish(ctx, tx)
	enqueueOrder(ctx, tx, &msg) // want `the error of enqueueOrder is ignored`
	enqueueAll(msg, msg)        // want `the error of enqueueAll is ignored`
	_ = n
}

// An interface of the application.
type enqueuer interface {
	Enqueue(ctx context.Context, tx pgx.Tx, msg outbox.Message) (int64, error)
}

func throughAnInterface(ctx context.Context, e enqueuer, tx pgx.Tx) {
	e.Enqueue(ctx, tx, msg) // want `the error of Enqueue is ignored`
}

func enqueueOrder(ctx context.Context, tx pgx.Tx, msg *outbox.Message) error { return nil }
func enqueueAll(msgs ...outbox.Message) error                                { return nil }

// No error, no message, or another queue.
func publish(ctx context.Context, tx pgx.Tx) error { return nil }
func mustEnqueue(msg outbox.Message)               {}

type jobs struct{}

func (jobs) Enqueue(name string) error { return nil }

func handled(ctx context.Context, s *pgstore.Store, tx pgx.Tx, j jobs) error {
	mustEnqueue(msg)
	j.Enqueue("mail")
	if _, err := s.Enqueue(ctx, tx, msg); err != nil {
		return err
	}
	_, err := s.EnqueueMany(ctx, tx, nil)
	return err
}
