package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// probeTimeout is how long a broker has to answer a question that costs it
	// nothing.
	probeTimeout = time.Second
	// maxProbed bounds how many are asked: if so many do not answer, the others
	// will not help.
	maxProbed = 5
)

// A probe asks whether any broker is there, once for all who want to know.
type probe struct {
	mu      sync.Mutex
	current *question // nil when nobody asks
}

type question struct {
	closed chan struct{} // when nobody asks any more
	err    error
}

// errUnknown says that whoever asked ran out of time.
var errUnknown = errors.New("nobody knows whether a broker answers")

// ask returns nil when a broker answers, and errUnknown when the time of whoever asks
// ends before.
func (p *probe) ask(ctx context.Context, client *kgo.Client) error {
	p.mu.Lock()
	if q := p.current; q != nil {
		p.mu.Unlock()
		select {
		case <-q.closed:
			return q.err
		case <-ctx.Done():
			return errUnknown
		}
	}
	q := &question{closed: make(chan struct{})}
	p.current = q
	p.mu.Unlock()

	q.err = ping(ctx, client)
	if q.err != nil && ctx.Err() != nil {
		q.err = errUnknown
	}
	p.mu.Lock()
	p.current = nil
	p.mu.Unlock()
	close(q.closed)
	return q.err
}

// ping returns nil when one of the brokers answers. It is Client.Ping for people in a
// hurry: that one waits behind connections that others are waiting for.
func ping(ctx context.Context, client *kgo.Client) error {
	brokers := append(client.DiscoveredBrokers(), client.SeedBrokers()...)
	rand.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
	var err error
	for _, b := range brokers[:min(len(brokers), maxProbed)] {
		if err = pingOne(ctx, b); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func pingOne(ctx context.Context, broker *kgo.Broker) error {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none, where nil means all
	_, err := broker.Request(limited, request)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return errSilent
	}
	return err
}

var errSilent = fmt.Errorf("a broker was silent for %s", probeTimeout)
