package kafkasink

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stuckAfter is how long a client that is well may keep a record while brokers answer:
// three attempts at a request, and never less than it was told to try.
//
// What it keeps for longer may have been written, on a partition that answers nothing
// definite, or the client is stuck. franz-go 1.22.2 can be: it takes a request back if
// the producer id fails between the making and the sending, and if an answer has just
// told it to send an earlier batch of the partition again, it passes that batch over
// (undoStagedBatches moves the index of the next batch forward). The batch is never sent
// and never fails, and whatever is behind it waits for ever.
func stuckAfter(client *kgo.Client) time.Duration {
	option := func(o any) time.Duration { d, _ := client.OptValue(o).(time.Duration); return d }
	attempt := option(kgo.DialTimeout) + option(kgo.ProduceRequestTimeout) + option(kgo.RequestTimeoutOverhead)
	return max(3*attempt, option(kgo.RecordDeliveryTimeout)+attempt)
}

// watch counts for how long shipments have been waited for while brokers answered, and
// has a client begin anew when one of them was waited for too long: it gives up all it
// has, and gets it again in the same order (see startedAnew).
//
// This is safe where another client, or making this one forget the topic, would not be.
// The producer id stays and its epoch rises, and a partition that has seen an epoch
// refuses an older one: what was on its way arrives before what is sent again, or not
// at all. And no sequence number stands for two records, of which a broker would
// acknowledge the second as a duplicate and not write it.
func (s *Sink) watch(shipments []*shipment, passed time.Duration) {
	for client := range s.stuck(shipments, passed) {
		client.UnsafeAbortBufferedRecords() // unsafe for transactions, says its comment
	}
}

func (s *Sink) stuck(shipments []*shipment, passed time.Duration) map[*kgo.Client]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	clients := map[*kgo.Client]bool{}
	for _, c := range shipments {
		if c.landed {
			continue
		}
		if c.watched += passed; c.watched >= s.stuckAfter {
			c.watched = 0
			clients[c.client] = true
		}
	}
	if len(clients) > 0 {
		s.starts++
	}
	return clients
}

// unwatch forgets what was counted: nothing moves in an outage, nor at once after it.
func (s *Sink) unwatch(shipments []*shipment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range shipments {
		c.watched = 0
	}
}

// startedAnew reports whether a record failed only because its client had to begin
// anew. It does so once for each beginning: whoever owns the client may abort as well.
func (s *Sink) startedAnew(c *shipment, err error) bool {
	if !errors.Is(err, kgo.ErrAborting) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.start == s.starts {
		return false
	}
	c.start, c.watched = s.starts, 0
	return true
}
