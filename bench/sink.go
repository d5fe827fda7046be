package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
	"github.com/go-outbox/outbox/relay"
)

// sinkGroups measure the way from PostgreSQL to a real destination. Client and store
// are its two halves, each alone. They share the machine, so together they take about
// as long as one after the other; what takes longer than that is lost in between.
func sinkGroups() []group {
	var all []group
	for _, d := range []destination{kafkaDestination(), natsDestination(), redisDestination()} {
		all = append(all, d.group())
	}
	return append(all, webhookDestination().group())
}

var (
	sinkStore = system{
		name: "store", settings: throughput + ", rows kept: the same messages to a handler that does nothing",
		settles: true, yardstick: true, open: ourKeep.open,
	}
	// sinkClient has no relay.
	sinkClient = system{
		name: "client", settings: "written by us: the bare client with the same payloads, keys and headers, made beforehand; batches of 1000, one after the other",
		yardstick: true, open: ourKeep.open,
	}
)

// A destination is where a sink sends to.
type destination struct {
	workload string
	settings string
	count    func(z sizes) int
	missing  func() error
	// open starts the server and connects to it.
	open func(ctx context.Context) (endpoint, error)
}

// An endpoint is a running destination.
type endpoint interface {
	// reset forgets what has arrived.
	reset(ctx context.Context) error
	// arrived counts the messages since then.
	arrived(ctx context.Context) (int, error)
	// sink is ours, connected.
	sink(ctx context.Context) (outbox.Dispatcher, func() error, error)
	close() error
}

// A bareEndpoint can also be reached without our sink.
type bareEndpoint interface {
	endpoint
	// client prepares messages for the bare client and returns what sends those from
	// i to j and waits for all acknowledgements.
	client(ctx context.Context, msgs []parcel) (send func(ctx context.Context, i, j int) error, close func(), err error)
}

// A parcel is a message as a sink would send it.
type parcel struct {
	outbox.DispatchedMessage
	headers []wire.Header
}

// A sinkRun is the state that the cells of one destination share.
type sinkRun struct {
	destination
	endpoint endpoint
}

func (d destination) group() group {
	r := &sinkRun{destination: d}
	whole := system{name: "outbox", settings: d.settings + "; " + sinkSettings, settles: true, open: ourKeep.open}
	g := group{missing: d.missing, close: r.close, cells: []cell{r.cell(whole, r.relay)}}
	if d.workload != webhookWorkload {
		g.cells = append(g.cells, r.cell(sinkClient, r.bare), r.cell(sinkStore, r.store))
	}
	return g
}

const sinkSettings = "batch 1000, window 32,000, 256 dispatches at once, rows kept"

// cell gives fn a loaded database and an empty destination.
func (r *sinkRun) cell(s system, fn func(ctx context.Context, s system, q *oursQueue, count int) (float64, error)) cell {
	return cell{system: s, workloads: []string{r.workload}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		if err := r.start(ctx); err != nil {
			return nil, err
		}
		err = b.with(ctx, s, func(db *database, q queue) error {
			count := r.count(b.sizes)
			if err := loadAndSettle(ctx, db, q.(*oursQueue), 1, count); err != nil {
				return err
			}
			if err := r.endpoint.reset(ctx); err != nil {
				return err
			}
			rate, err := fn(ctx, s, q.(*oursQueue), count)
			figures = []figure{{r.workload, "msg/s", rate}}
			return err
		})
		return figures, err
	}}
}

func (r *sinkRun) start(ctx context.Context) (err error) {
	if r.endpoint == nil {
		r.endpoint, err = r.open(ctx)
	}
	return err
}

func (r *sinkRun) close(context.Context) error {
	if r.endpoint == nil {
		return nil
	}
	err := r.endpoint.close()
	r.endpoint = nil
	return err
}

// store drains without a destination.
func (r *sinkRun) store(ctx context.Context, s system, q *oursQueue, count int) (float64, error) {
	d, err := drain(ctx, s, q, count, 0, noop)
	return d.rate(), err
}

// relay drains into the sink.
func (r *sinkRun) relay(ctx context.Context, s system, q *oursQueue, count int) (float64, error) {
	sink, closeSink, err := r.endpoint.sink(ctx)
	if err != nil {
		return 0, err
	}
	d, err := drain(ctx, s, &sinkQueue{oursQueue: q, sink: sink}, count, 0, noop)
	if err := errors.Join(err, closeSink()); err != nil {
		return 0, err
	}
	return d.rate(), r.complete(ctx, count)
}

// bare sends what a relay would, without one.
func (r *sinkRun) bare(ctx context.Context, s system, q *oursQueue, count int) (float64, error) {
	msgs, err := collect(ctx, s, q, count)
	if err != nil {
		return 0, err
	}
	send, closeClient, err := r.endpoint.(bareEndpoint).client(ctx, msgs)
	if err != nil {
		return 0, err
	}
	defer closeClient()
	start := time.Now()
	for i := 0; i < count; i += manyCount {
		if err := send(ctx, i, min(i+manyCount, count)); err != nil {
			return 0, err
		}
	}
	rate := float64(count) / time.Since(start).Seconds()
	return rate, r.complete(ctx, count)
}

// complete makes sure that the figure is of messages that have arrived.
func (r *sinkRun) complete(ctx context.Context, count int) error {
	n, err := r.endpoint.arrived(ctx)
	if err == nil && n < count {
		err = fmt.Errorf("only %d of %d messages have arrived", n, count)
	}
	return err
}

// A sinkQueue relays to a sink.
type sinkQueue struct {
	*oursQueue
	sink outbox.Dispatcher
}

func (q *sinkQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A destination that fails would be retried for ever.
	counting := counter{q.sink, handle, func(err error) { cancel(fmt.Errorf("the sink: %w", err)) }}
	var dispatcher outbox.Dispatcher = counting
	if batches, ok := q.sink.(outbox.BatchDispatcher); ok {
		dispatcher = batchCounter{counting, batches}
	}
	r, err := relay.New(q.store, dispatcher, q.cfg)
	if err != nil {
		return err
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// A counter tells of every message that a sink has delivered.
type counter struct {
	sink   outbox.Dispatcher
	handle func(payload []byte)
	fail   func(err error)
}

func (c counter) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	err := c.sink.Dispatch(ctx, msg)
	c.count(&msg, err)
	return err
}

func (c counter) count(msg *outbox.DispatchedMessage, err error) {
	if err != nil {
		c.fail(err)
		return
	}
	c.handle(msg.Payload)
}

type batchCounter struct {
	counter
	batches outbox.BatchDispatcher
}

func (c batchCounter) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := c.batches.DispatchBatch(ctx, msgs)
	for i := range msgs {
		c.count(&msgs[i], errs[i])
	}
	return errs
}

// collect returns the messages as a relay hands them to a sink.
func collect(ctx context.Context, s system, q *oursQueue, count int) ([]parcel, error) {
	keeper := &keeper{}
	if _, err := drain(ctx, system{name: s.name, settles: true}, &sinkQueue{oursQueue: q, sink: keeper}, count, 0, noop); err != nil {
		return nil, err
	}
	for i := range keeper.msgs {
		headers, err := wire.Headers(&keeper.msgs[i].Meta)
		if err != nil {
			return nil, err
		}
		keeper.msgs[i].headers = headers
	}
	return keeper.msgs, nil
}

// A keeper keeps what it is given.
type keeper struct {
	mu   sync.Mutex
	msgs []parcel
}

func (k *keeper) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	msg.Payload, msg.Meta.Headers = bytes.Clone(msg.Payload), maps.Clone(msg.Meta.Headers)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.msgs = append(k.msgs, parcel{DispatchedMessage: msg})
	return nil
}
