package outbox

import (
	"context"
	"time"
)

// A Store is one outbox table and its side tables in one database, as the engine
// sees it. How an application enqueues is the store package's own business, because
// the transaction type is. Stores are safe for concurrent use.
//
// Capabilities beyond this seam ([Fleet], [Waker], [Purger], [Inspector],
// [Operator]) are found by type assertion.
type Store interface {
	// Table names the table, as `name` or `schema.name`.
	Table() string
	// Acquire takes a lease that is free or has expired. ErrLeaseHeld means that
	// all are taken; ErrSchema and ErrRestored need a person.
	Acquire(ctx context.Context, req LeaseRequest) (Lease, error)
}

// LeaseRequest says who wants a lease and for how long.
type LeaseRequest struct {
	// Instance names the process, anew for each start of it.
	Instance string
	// TTL is how long the lease lasts without renewal.
	TTL time.Duration
}

// A Lease is the right to relay one shard of a store. Every write is fenced by the
// lease's owner token and epoch: after a takeover each method returns ErrLeaseLost
// and writes nothing. Read and Step may run concurrently; a method is never called
// twice at once.
type Lease interface {
	Info() LeaseInfo

	// Recover adopts the batches that earlier owners left behind. A batch that
	// was in flight has its crash count raised, unless the owner is excused: the
	// same instance, one that was draining, or a database that restarted since.
	// Adopted batches belong to this epoch and are not in flight.
	Recover(ctx context.Context) ([]Orphan, error)

	// Heads lists, in sequence order, the keyed messages that can hold their key:
	// dead ones, and unpublished ones that are scheduled or were put back. It
	// returns those with a sequence above after, at most limit.
	Heads(ctx context.Context, after int64, limit int) ([]Head, error)

	// Read returns due messages as of one snapshot. It writes nothing.
	Read(ctx context.Context, req ReadRequest) (Page, error)

	// Step settles outcomes and records batches in one fenced, atomic write.
	// Batches may be dispatched once it has returned nil. On any error but
	// ErrLeaseLost the outcome is unknown and the same step may be sent again:
	// settling and recording are idempotent.
	Step(ctx context.Context, step Step) error

	// Renew extends the lease and says whether an operator has changed rows.
	Renew(ctx context.Context, r Renewal) (Renewed, error)

	// Release gives the lease back, so that another relay need not wait for it
	// to expire. low is as in Renewal.
	Release(ctx context.Context, low int64) error
}

// LeaseInfo describes an acquired lease.
type LeaseInfo struct {
	Shard  int
	Shards int
	// SlotLo and SlotHi bound the slots (0 to 255) of the shard, inclusively.
	SlotLo, SlotHi int
	Epoch          int64
	// Low is where reading begins: no message that only a scan can find has a
	// lower or equal sequence, as far as the last owner knew.
	Low int64
	// Top is the highest sequence that existed at acquisition. Below it, missing
	// numbers are mostly settled messages and not running transactions.
	Top int64
	// Nudge counts operator changes.
	Nudge int64
	// Takeover: the last owner did not give the lease back.
	Takeover bool
	// Gapless: sequence order is commit order, so a missing number stays missing.
	Gapless bool
	// Paused: an operator has paused the whole table; PausedRoutes: only these.
	Paused       bool
	PausedRoutes []string
}

// An Orphan is a batch whose owner is gone.
type Orphan struct {
	No  int64
	IDs []int64
	// Crashes counts owners that vanished with the batch in flight.
	Crashes int
	// Lost: it was in flight when its owner vanished without excuse.
	Lost bool
	// Solo: it was dispatched alone in its process. Beat: that dispatch lived
	// long enough to say so.
	Solo, Beat bool
}

// A Head is a message that holds the later ones of its key.
type Head struct {
	Sequence int64
	Key      string
	Topic    string
	Dead     bool
}

// ReadRequest asks for messages. The parts are read in one snapshot: otherwise a
// later message could overtake an earlier one that committed in between.
type ReadRequest struct {
	// After and Limit bound the fresh part: sequences above After, in order.
	// Limit 0 leaves it out.
	After int64
	Limit int
	// All also reports, as Page.Seen, the sequences in the fresh part that are
	// settled or of another shard, so that they are not taken for gaps.
	All bool
	// MaxBytes bounds the payload bytes of the fresh part; at least one message
	// is returned.
	MaxBytes int
	// IDs are read by sequence: open gaps and adopted batches.
	IDs []int64
	// Due asks for messages that were scheduled or put back and are due now, at
	// most this many, after DueAfter in (available_at, sequence) order.
	Due      int
	DueAfter DueCursor
	// Rewind reads the unpublished messages of some keys or topics again.
	Rewind *Rewind
	// Sweep looks for strays: unpublished messages with From < sequence <= To
	// that were neither scheduled nor put back, so that only a scan can find
	// them. They are reported as Page.Strays, without their content.
	Sweep *Range
}

// Rewind selects messages that were passed over: those of the given keys or topics
// (of all, when both are empty) with After < sequence <= To, in order, at most
// Limit.
type Rewind struct {
	After, To int64
	Limit     int
	Keys      []string
	Topics    []string
}

// Range is a half-open range of sequences: From < sequence <= To.
type Range struct{ From, To int64 }

// A DueCursor is a position among the due messages. The zero value is the start.
type DueCursor struct {
	AvailableAt time.Time
	Sequence    int64
}

// A Page is the answer to a ReadRequest. Messages appear once, in no particular
// order between the parts.
type Page struct {
	// Fresh are unpublished messages of the fresh part in sequence order, due or
	// not.
	Fresh []*Record
	// Seen are other sequences of the fresh part (see ReadRequest.All). Last is
	// the highest sequence of the fresh part, whatever it was, or After.
	Seen []int64
	Last int64
	// Others are the messages of the remaining parts but the sweep.
	Others []*Record
	// Strays are what the sweep found, owned by this lease or not.
	Strays []Stray
	// Due counts the due part, which ends at DueEnd; Rewound counts the rewind
	// part, which ends at RewindEnd.
	Due       int
	DueEnd    DueCursor
	Rewound   int
	RewindEnd int64
	// Oldest and Next are the oldest running and the next transaction as of the
	// snapshot, where the database numbers them: a gap is taken for closed when
	// Oldest has passed a Next that was read well after the gap was found. Zero
	// means unknown.
	Oldest, Next uint64
	// Now is the database's clock.
	Now time.Time
}

// A Stray is an unpublished message that a sweep came across.
type Stray struct {
	Sequence int64
	Key      string
	Topic    string
}

// A Step is one fenced write: what is finished and what is about to begin. Its slices
// are the caller's again when the write has ended.
type Step struct {
	// Outcomes are settled under the guard that the message is unpublished, not
	// dead and of the same replay generation; what no longer matches is left as
	// an operator made it.
	Outcomes []Outcome
	// Delete removes published messages instead of marking them.
	Delete bool
	// Done names finished batches.
	Done []int64
	// Record makes new batches durable.
	Record []Batch
	// Start marks adopted batches as in flight; Beat notes that a solo dispatch
	// is alive.
	Start, Beat []int64
}

// Empty reports whether the step would write nothing.
func (s *Step) Empty() bool {
	return len(s.Outcomes)+len(s.Done)+len(s.Record)+len(s.Start)+len(s.Beat) == 0
}

// A Batch is a set of messages that is recorded before it is dispatched.
type Batch struct {
	// No is unique within the lease's epoch.
	No  int64
	IDs []int64
	// Crashes, Queued and Solo are zero for ordinary batches; see Orphan. A
	// queued batch is not in flight until it is started.
	Crashes int
	Queued  bool
	Solo    bool
}

// OutcomeKind is what happened to a message.
type OutcomeKind int

const (
	// Published means: acknowledged by its destination.
	Published OutcomeKind = iota
	// Retry means: failed; available again after Delay.
	Retry
	// Dead means: will not be tried again until a person replays it.
	Dead
	// Deferred means: put back without a verdict on the message; available again after
	// Delay. Stores set available_at later than created_at even for a zero
	// Delay, so that the due part finds the message again.
	Deferred
)

func (k OutcomeKind) String() string {
	switch k {
	case Published:
		return "published"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	default:
		return "deferred"
	}
}

// Reasons of dead messages.
const (
	DeadAttempts  = "attempts"  // the last permitted attempt failed
	DeadPermanent = "permanent" // the destination will never accept it
	DeadCrash     = "crash"     // it ended its process, alone
	DeadCorrupt   = "corrupt"   // the row cannot be read as a message
	DeadSize      = "size"      // the row exceeds the payload limit
	DeadNoRoute   = "no_route"  // no destination takes its topic
)

// An Outcome settles one message.
type Outcome struct {
	Sequence int64
	Kind     OutcomeKind
	// Replays and Attempts are the message's as it was read. An outcome applies
	// only while Replays is unchanged (an operator may have replayed the message
	// meanwhile) and, unless it is Published, while Attempts is (so that a step
	// sent twice counts once).
	Replays  int
	Attempts int
	// Spent is added to the message's attempts: 1 for a dispatch that happened,
	// 0 for one that did not.
	Spent int
	// Delay is from the database's now until the message is available again.
	Delay  time.Duration
	Reason string
	// Error is sanitised text.
	Error string
	// Route and Took describe the attempt for its history.
	Route string
	Took  time.Duration
	// RoutesDone are the routes that have the message already. Nil leaves them
	// as they are.
	RoutesDone []string
}

// Renewal carries what a relay reports with its heartbeat.
type Renewal struct {
	// Low is the highest sequence below which nothing waits that only a scan can
	// find.
	Low int64
	// Draining: the relay is stopping; losing it now is not a crash.
	Draining bool
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	Nudge int64
	// Paused: the whole table; PausedRoutes: only these.
	Paused       bool
	PausedRoutes []string
}

// A Fleet is a store that several relays can work at once.
type Fleet interface {
	// Heartbeat registers a relay process and reports the state of the fleet.
	Heartbeat(ctx context.Context, m Member) (FleetView, error)
	// Leave removes the process from the fleet.
	Leave(ctx context.Context, instance string) error
	// Resize changes the number of shards. It needs every lease to be free or
	// expired and returns ErrLeaseHeld otherwise.
	Resize(ctx context.Context, shards int) error
}

// A Member is one relay process.
type Member struct {
	Instance string
	Version  string
	// TTL is after how long without a heartbeat the member counts as gone.
	TTL time.Duration
	// Note is what the process wants operators to know.
	Note RelayNote
}

// A RelayNote is how a relay process describes its work to operators. It is stored
// as JSON and carries no content of messages.
type RelayNote struct {
	// OnDead is "block" when a dead message holds its key.
	OnDead string `json:"on_dead,omitempty"`
	// Circuits are the routes whose circuit is not closed.
	Circuits []CircuitNote `json:"circuits,omitempty"`
	// Routes are those that the relay has sent to, at most MaxRouteNotes.
	Routes []RouteNote `json:"routes,omitempty"`
}

// MaxRouteNotes bounds what a relay tells about its routes.
const MaxRouteNotes = 100

// A RouteNote is what a relay knows about a route since it began to work its shards.
type RouteNote struct {
	Route     string `json:"route"`
	Delivered int64  `json:"delivered"`
	Failed    int64  `json:"failed,omitempty"`
	// Latency is how long the last dispatches took, as a moving average.
	Latency time.Duration `json:"latency"`
	// LastError is the sanitised text of the last failure.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// A CircuitNote is a route that a relay does not deliver to just now.
type CircuitNote struct {
	Route string    `json:"route"`
	Since time.Time `json:"since"`
	// Error is the sanitised reason.
	Error string `json:"error,omitempty"`
}

// A FleetView is what a member needs to know to take its share.
type FleetView struct {
	Shards int
	Live   int
}

// A Waker tells the relay at once when messages may have been committed. It is an
// optimisation: polling alone is correct.
type Waker interface {
	// Listen calls wake until ctx ends. It returns an error when it cannot go on;
	// the relay then polls and tries again later.
	Listen(ctx context.Context, wake func()) error
}

// A Purger deletes what retention allows.
type Purger interface {
	// Purge deletes at most Limit messages and reports how many.
	Purge(ctx context.Context, req PurgeRequest) (PurgeResult, error)
}

// PurgeRequest bounds a purge. Ages are judged by the database's clock.
type PurgeRequest struct {
	// Published means: delete messages published longer ago than this.
	Published time.Duration
	// Dead means: delete messages dead for longer than this. Zero keeps them for ever.
	Dead  time.Duration
	Limit int
	// Archive, when set, receives each message before it is deleted; an error
	// keeps the message.
	Archive func(*Record) error
}

// PurgeResult counts what a purge deleted. More says that the limit was reached.
type PurgeResult struct {
	Published, Dead int
	More            bool
}
