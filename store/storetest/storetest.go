// Package storetest is the contract of an outbox store as a test suite: the names of
// its subtests, read aloud, are the specification. A store passes it with a harness
// and one call of [Run]; what it cannot do it declares in [Features], and the suite
// then skips those subtests visibly.
//
// The suite never sleeps. Time passes by [Harness.Shift], which makes the stored
// rows older, so that leases expire and retries fall due on a real database at once.
//
// Passing it says that a store keeps the seam between store and engine. It says
// nothing about speed, about crashes of the database itself, or about how the
// store's SQL behaves at another isolation level.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

// A Harness is one empty store and the means to test it. Hooks that are not marked
// optional are required. The store implements outbox.Purger, outbox.Inspector,
// outbox.Operator and outbox.Recorder besides.
type Harness struct {
	// Store is a handle on a new, empty table.
	Store outbox.Store
	// Reopen gives a second, independent handle on the same table, as another
	// process would have.
	Reopen func(t *testing.T) outbox.Store
	// Begin starts a transaction of the caller. It may be called from several
	// goroutines. The harness rolls back what a test leaves open.
	Begin func(t *testing.T) Tx
	// Autocommit enqueues one message without a transaction of the caller.
	Autocommit func(ctx context.Context, msg outbox.Message) (int64, error)
	// Shift lets time pass: it makes every stored time older by d, which is
	// created_at, available_at, published_at, dead_at of messages, expires_at of
	// leases, recorded_at and beat of batches, seen_at of relays, and cut, next
	// and driven_at of jobs. NULL stays NULL.
	Shift func(t *testing.T, d time.Duration)
	// InsertRaw inserts a committed row the way a program in another language
	// would: topic, key and payload, everything else by default. It returns the
	// sequence. Optional.
	InsertRaw func(t *testing.T, topic, key, payload string) int64

	Features Features
}

// A Tx is a transaction of the caller with the store's Enqueue bound to it.
type Tx interface {
	Enqueue(ctx context.Context, msg outbox.Message) (int64, error)
	EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error)
	Commit() error
	Rollback() error
}

// A SavepointTx is a Tx of a store with Features.Savepoints.
type SavepointTx interface {
	Tx
	Savepoint(name string) error
	RollbackTo(name string) error
}

// Features declares what a store can do. The zero value is a store with a single
// shard and writers that run one after the other.
type Features struct {
	// Savepoints: transactions implement SavepointTx.
	Savepoints bool
	// Shards: the store implements outbox.Fleet with more than one shard.
	Shards bool
	// LateCommit: transactions run side by side, so that a lower sequence may
	// become visible after a higher one. False means that a second writer waits
	// for the first; such a store reports LeaseInfo.Gapless, and the suite then
	// writes nothing else while a transaction is open, except from another
	// goroutine.
	LateCommit bool
	// Binary: payloads of another content type than JSON are stored as they are.
	// False means that Enqueue refuses them with ErrInvalidPayload.
	Binary bool
	// Rewrites: the payload column rewrites JSON (jsonb), so payloads come back
	// with the same meaning and not with the same bytes.
	Rewrites bool
}

// Run runs the contract against the stores that newHarness makes, a new one for
// each subtest.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, topic := range []struct {
		name   string
		claims []claim
	}{
		{"Enqueue", enqueueClaims},
		{"Duplicates", duplicateClaims},
		{"Lease", leaseClaims},
		{"Read", readClaims},
		{"Step", stepClaims},
		{"Recover", recoverClaims},
		{"Operate", operateClaims},
		{"Verb", verbClaims},
		{"Job", jobClaims},
		{"Audit", auditClaims},
		{"Purge", purgeClaims},
		{"Inspect", inspectClaims},
		{"Dead", deadClaims},
		{"Shard", shardClaims},
	} {
		t.Run(topic.name, func(t *testing.T) {
			for _, c := range topic.claims {
				t.Run(c.name, func(t *testing.T) { c.test(&suite{Harness: newHarness(t), T: t}) })
			}
		})
	}
}

// A claim is one sentence of the contract.
type claim struct {
	name string
	test func(s *suite)
}
