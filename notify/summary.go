package notify

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// Bounds of a summary.
const (
	maxGroups   = 50
	maxMessages = 3 // of a group
	maxError    = 512
	maxName     = 255
)

// A Summary is the payload of a notification: what died between two moments.
type Summary struct {
	// ID is the same when a notification is sent again.
	ID    uuid.UUID `json:"id"`
	Count int       `json:"count"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Groups are the deaths by table, topic and reason, the largest first.
	Groups []Group `json:"groups"`
	// Others counts deaths beyond the first 50 groups.
	Others int `json:"others,omitempty"`
}

// A Group is a set of messages that died alike.
type Group struct {
	Table  string `json:"table"`
	Topic  string `json:"topic"`
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Messages are the first three of them.
	Messages []Message `json:"messages"`
}

// A Message is one dead message. The table has the rest of it.
type Message struct {
	EventID  uuid.UUID `json:"event_id"`
	Sequence int64     `json:"sequence"`
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
	Error    string    `json:"error,omitempty"`
}

// deaths gathers a summary.
type deaths struct {
	arrived chan struct{} // holds a token while there is something to tell

	mu      sync.Mutex
	summary *Summary // nil: nobody died
	groups  map[kind]int
}

type kind struct{ table, topic, reason string }

func (d *deaths) add(meta *outbox.Meta, o outbox.Outcome, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.summary == nil {
		d.summary = &Summary{ID: uuid.New(), Since: now}
		d.groups = map[kind]int{}
		select {
		case d.arrived <- struct{}{}:
		default:
		}
	}
	s := d.summary
	s.Count++
	s.Until = now
	g := d.group(kind{meta.Table, meta.Topic, o.Reason})
	if g == nil {
		s.Others++
		return
	}
	g.Count++
	if len(g.Messages) < maxMessages {
		g.Messages = append(g.Messages, Message{
			EventID: meta.EventID, Sequence: meta.Sequence, Attempts: o.Attempts + o.Spent, At: now,
			Error: outbox.SanitizeText(o.Error, nil, maxError),
		})
	}
}

// group finds or begins a group; nil means that there are enough.
func (d *deaths) group(k kind) *Group {
	i, ok := d.groups[k]
	if !ok {
		if len(d.summary.Groups) == maxGroups {
			return nil
		}
		i = len(d.summary.Groups)
		d.groups[k] = i
		d.summary.Groups = append(d.summary.Groups, Group{
			Table: k.table, Topic: outbox.SanitizeText(k.topic, nil, maxName), Reason: k.reason, // a row may have any topic
		})
	}
	return &d.summary.Groups[i]
}

// take returns what was gathered, or nil.
func (d *deaths) take() *Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.summary
	d.summary, d.groups = nil, nil
	if s != nil {
		slices.SortStableFunc(s.Groups, func(a, b Group) int { return cmp.Compare(b.Count, a.Count) })
	}
	return s
}
