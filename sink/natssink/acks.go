package natssink

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An inbox receives the acknowledgements of a connection and hands them to the batches
// that wait for them.
//
// The publisher of package jetstream does the same, with a timer, two channels and a
// goroutine that may outlive it. Here a batch waits for itself: nothing is left of it
// when its dispatch returns.
type inbox struct {
	conn   *nats.Conn
	prefix string // of the reply subjects: PREFIX BATCH "." MESSAGE

	mu      sync.Mutex
	sub     *nats.Subscription
	closed  bool
	next    uint64
	batches map[string]*batch
}

func newInbox(conn *nats.Conn) *inbox {
	return &inbox{conn: conn, prefix: conn.NewInbox() + ".", batches: map[string]*batch{}}
}

// A batch is what one dispatch waits for.
type batch struct {
	inbox  *inbox
	id     string
	broken chan nats.Status // the connection is lost, and with it what was not answered

	mu      sync.Mutex
	answers []*nats.Msg // by message; nil is none yet
	waiting int
	done    chan struct{} // closed when nothing is waited for
}

// begin registers a batch. End it.
func (in *inbox) begin(size int) (*batch, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, errClosed
	}
	if in.sub == nil {
		sub, err := in.conn.Subscribe(in.prefix+">", in.receive)
		if err != nil {
			return nil, err
		}
		in.sub = sub
	}
	in.next++
	b := &batch{
		inbox: in, id: strconv.FormatUint(in.next, 36), answers: make([]*nats.Msg, size), waiting: size, done: make(chan struct{}),
		broken: in.conn.StatusChanged(nats.RECONNECTING, nats.CLOSED),
	}
	in.batches[b.id] = b
	return b, nil
}

func (b *batch) end() {
	b.inbox.conn.RemoveStatusListener(b.broken)
	b.inbox.mu.Lock()
	defer b.inbox.mu.Unlock()
	delete(b.inbox.batches, b.id)
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.sub != nil {
		_ = in.sub.Unsubscribe() // the connection may be gone, and the subscription with it
	}
	for _, b := range in.batches {
		b.stop()
	}
}

// reply is the subject for the answer to a message.
func (b *batch) reply(message int) string {
	return b.inbox.prefix + b.id + "." + strconv.Itoa(message)
}

func (in *inbox) receive(msg *nats.Msg) {
	id, message, _ := strings.Cut(strings.TrimPrefix(msg.Subject, in.prefix), ".")
	in.mu.Lock()
	b := in.batches[id]
	in.mu.Unlock()
	i, err := strconv.Atoi(message)
	if b == nil || err != nil || i < 0 || i >= len(b.answers) {
		return // too late, or not for us
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers[i] == nil {
		b.answers[i] = msg
		b.settle()
	}
}

// skip says that there will be no answer to a message: it was not sent.
func (b *batch) skip() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
}

func (b *batch) settle() {
	b.waiting--
	if b.waiting == 0 {
		close(b.done)
	}
}

func (b *batch) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting > 0 {
		b.waiting = -1 // never 0 again
		close(b.done)
	}
}

// wait returns when every message is answered, or with the reason why some are not.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return errClosed // of no interest when all are answered
	case <-b.broken:
		return nats.ErrDisconnected
	case <-ctx.Done():
		return fmt.Errorf("no acknowledgement: %w", context.Cause(ctx))
	}
}

// answer returns what the stream said to a message, or nil if it said nothing.
func (b *batch) answer(message int) *nats.Msg {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers[message]
}

// acknowledgement reads an answer: nil is the acknowledgement of a stream.
func acknowledgement(msg *nats.Msg) (duplicate bool, err error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return false, jetstream.ErrNoStreamResponse
	}
	var answer struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(msg.Data, &answer); {
	case err != nil:
		return false, jetstream.ErrInvalidJSAck
	case answer.Error != nil:
		return false, answer.Error
	case answer.Stream == "" || answer.Sequence == 0:
		return false, jetstream.ErrInvalidJSAck
	}
	return answer.Duplicate, nil
}
