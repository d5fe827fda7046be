package kafkasink

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// apart is a second client, made when it is first needed, on which a record is alone.
type apart struct {
	turn    chan struct{} // one dispatch at a time
	options []kgo.Opt

	mu      sync.Mutex
	client  *kgo.Client
	crowded bool // something overdue may be on it
	closed  bool
}

func newApart(of *kgo.Client) apart {
	return apart{turn: make(chan struct{}, 1), options: append(of.Opts(), kgo.ProducerLinger(0))}
}

var (
	errClosed  = errors.New("the sink is closed")
	errCrowded = errors.New("refused, perhaps for the sake of another message")
)

// open returns the client, if nothing of others is on it.
func (a *apart) open() (*kgo.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, errClosed
	case a.client == nil:
		client, err := kgo.NewClient(a.options...)
		if err != nil {
			return nil, err
		}
		a.client = client
	case a.crowded && a.client.BufferedProduceRecords() > 0:
		return nil, errCrowded
	}
	a.crowded = false
	return a.client, nil
}

func (a *apart) crowd() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crowded = true
}

func (a *apart) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.client != nil {
		a.client.Close()
	}
}

// separate finds out which of the refused messages the broker means. It refuses a batch
// as a whole, and the client then fails all that waits for the same partition, whoever
// sent it. So they are sent again where nobody else is, and what is refused in halves
// of itself, until a refusal is about one message.
func (s *Sink) separate(ctx context.Context, refused []*parcel) {
	select {
	case s.apart.turn <- struct{}{}:
		defer func() { <-s.apart.turn }()
		s.split(ctx, refused)
	case <-ctx.Done():
		fail(refused, errCrowded)
	}
}

func (s *Sink) split(ctx context.Context, group []*parcel) {
	client, err := s.apart.open()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		fail(group, err)
		return
	}
	if left := s.send(ctx, client, group); left {
		s.apart.crowd()
	}
	if len(group) == 1 {
		return
	}
	refused := those(group, blamesOneOfMany)
	half := len(refused) / 2
	for _, part := range [][]*parcel{refused[:half], refused[half:]} {
		if len(part) > 0 {
			s.split(ctx, part)
		}
	}
}

func fail(parcels []*parcel, err error) {
	for _, p := range parcels {
		p.err = err
	}
}
