package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-outbox/outbox"
)

// A Route is where some topics go.
type Route struct {
	// Name is what the relay's circuit, the metrics and the errors call it. It
	// is required and unique.
	Name string
	// Topics are patterns: segments separated by dots, where * stands for one
	// segment and ** at the end for one or more. Required.
	Topics []string
	// Sink takes the messages. Several routes may share one. Required.
	Sink outbox.Dispatcher
	// Topic is what the sink's topic, subject or routing key is made of: text
	// with {topic}, {table}, {tenant}, {aggregate_type}, {event_type} and
	// {version}. A message whose field is empty, or holds more than letters,
	// digits, dots, hyphens and underscores, is dead; {tenant} may not hold dots
	// either. Where the topic changes and the message has no event type, its
	// topic becomes its event type, so that consumers can tell what it is.
	// Defaults to {topic}.
	Topic string
	// Envelope is put around the payload. Defaults to none.
	Envelope Envelope
}

// A Router hands each message to the sink of its route. Make it with NewRouter. It
// is safe for concurrent use if its sinks are. It is an outbox.BatchDispatcher too if
// every one of its sinks is: otherwise messages of those that are not would go one
// after the other, while the relay dispatches single messages side by side.
type Router interface {
	outbox.Dispatcher
	outbox.Router
	// Check returns an error that wraps outbox.ErrNoRoute for every topic that
	// no route takes, for programs that know their topics at the start.
	Check(topics ...string) error
}

var (
	_ Router                 = (*router)(nil)
	_ Router                 = (*batchRouter)(nil)
	_ outbox.BatchDispatcher = (*batchRouter)(nil)
)

type router struct {
	exact map[string]*route // patterns without wildcards: nothing before them takes their topic
	wild  []entry           // the others, in order
}

type entry struct {
	pattern pattern
	route   *route
}

type route struct {
	name     string
	sink     outbox.Dispatcher
	topic    template
	envelope Envelope
}

// NewRouter makes a router. It reports every mistake in the routes at once, also
// patterns that can never match because others before them take all their topics.
func NewRouter(routes ...Route) (Router, error) {
	r := &router{exact: make(map[string]*route)}
	if err := r.build(routes); err != nil {
		return nil, err
	}
	for _, route := range routes {
		if _, ok := route.Sink.(outbox.BatchDispatcher); !ok {
			return r, nil
		}
	}
	return &batchRouter{r}, nil
}

func (r *router) build(routes []Route) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, outbox.ErrInvalidConfig.With(field, fmt.Sprintf(format, args...)))
	}
	if len(routes) == 0 {
		bad("routes", "at least one is required")
	}
	names := map[string]bool{}
	var taken []entry
	for i, cfg := range routes {
		field := fmt.Sprintf("routes[%d] %s", i, cfg.Name)
		if names[cfg.Name] {
			bad(field, "another route has the same name")
		}
		names[cfg.Name] = true
		target := cfg.build(field, bad)
		for _, text := range cfg.Topics {
			p, err := parsePattern(text)
			if err != nil {
				bad(field, "%v", err)
				continue
			}
			if by := coveredBy(p, taken); by != nil {
				bad(field, "pattern %q never matches: %q of route %s comes first", text, by.pattern, by.route.name)
			}
			taken = append(taken, entry{p, target})
		}
	}
	for _, e := range taken {
		r.add(e)
	}
	return errors.Join(errs...)
}

// build checks all of a route but its patterns.
func (c *Route) build(field string, bad func(field, format string, args ...any)) *route {
	if c.Name == "" {
		bad(field, "name is required")
	}
	if c.Sink == nil {
		bad(field, "sink is required")
	}
	if len(c.Topics) == 0 {
		bad(field, "at least one topic pattern is required")
	}
	if err := c.Envelope.validate(); err != nil {
		bad(field, "%v", err)
	}
	topic, err := parseTemplate(c.Topic)
	if err != nil {
		bad(field, "%v", err)
	}
	return &route{name: c.Name, sink: c.Sink, topic: topic, envelope: c.Envelope}
}

func coveredBy(p pattern, taken []entry) *entry {
	for i := range taken {
		if taken[i].pattern.covers(p) {
			return &taken[i]
		}
	}
	return nil
}

func (r *router) add(e entry) {
	if e.pattern.literal() {
		r.exact[string(e.pattern)] = e.route
	} else {
		r.wild = append(r.wild, e)
	}
}

func (r *router) find(topic string) *route {
	if found := r.exact[topic]; found != nil {
		return found
	}
	for i := range r.wild {
		if r.wild[i].pattern.matches(topic) {
			return r.wild[i].route
		}
	}
	return nil
}

// Route names the route of a topic, or returns "" when there is none.
func (r *router) Route(topic string) string {
	if found := r.find(topic); found != nil {
		return found.name
	}
	return ""
}

func (r *router) Check(topics ...string) error {
	var errs []error
	for _, topic := range topics {
		if r.find(topic) == nil {
			errs = append(errs, noRoute(topic))
		}
	}
	return errors.Join(errs...)
}

func noRoute(topic string) error {
	return outbox.ErrNoRoute.With("topic", fmt.Sprintf("no route takes %.80q", topic))
}

// Dispatch hands msg to the sink of its route.
func (r *router) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	to := r.find(msg.Meta.Topic)
	if to == nil {
		return noRoute(msg.Meta.Topic)
	}
	if err := to.prepare(&msg); err != nil {
		return err
	}
	return to.sink.Dispatch(ctx, msg)
}

// prepare makes msg what the sink is to send. Its errors are permanent.
func (r *route) prepare(msg *outbox.DispatchedMessage) error {
	topic, err := r.topic.expand(&msg.Meta)
	if err != nil {
		return outbox.Permanent(fmt.Errorf("route %s: %w", r.name, err))
	}
	if err := r.envelope.wrap(msg); err != nil { // before its topic changes
		return outbox.Permanent(fmt.Errorf("route %s: %w", r.name, err))
	}
	if topic != msg.Meta.Topic && msg.Meta.EventType == "" {
		msg.Meta.EventType = msg.Meta.Topic
	}
	msg.Meta.Topic = topic
	return nil
}

// A batchRouter is a router whose sinks all take batches.
type batchRouter struct{ *router }

var errNoResult = errors.New("the sink returned no result for this message")

// A share is one route's part of a batch.
type share struct {
	route *route
	msgs  []outbox.DispatchedMessage
	index []int // of each message in the batch
}

// DispatchBatch gives every route its share of the batch, side by side: a route that
// hangs until the deadline must not take the others with it.
func (r *batchRouter) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	shares := r.split(msgs, errs)
	var group sync.WaitGroup
	for i := 1; i < len(shares); i++ {
		group.Go(func() { shares[i].dispatch(ctx, errs) })
	}
	if len(shares) > 0 {
		shares[0].dispatch(ctx, errs)
	}
	group.Wait()
	return errs
}

// split sorts the messages by route, and settles those that have none or cannot be
// sent.
func (r *batchRouter) split(msgs []outbox.DispatchedMessage, errs []error) []*share {
	var shares []*share
	byRoute := map[*route]*share{}
	for i := range msgs {
		msg := msgs[i]
		to := r.find(msg.Meta.Topic)
		if to == nil {
			errs[i] = noRoute(msg.Meta.Topic)
			continue
		}
		if errs[i] = to.prepare(&msg); errs[i] != nil {
			continue
		}
		s := byRoute[to]
		if s == nil {
			s = &share{route: to}
			byRoute[to], shares = s, append(shares, s)
		}
		s.msgs, s.index = append(s.msgs, msg), append(s.index, i)
	}
	return shares
}

// dispatch writes the results of a share to their places in errs. Nothing but a
// result of the sink's own is a delivery: not a panic, and not the end of its
// goroutine.
func (s *share) dispatch(ctx context.Context, errs []error) {
	s.fail(errs, errNoResult)
	defer func() {
		if v := recover(); v != nil {
			s.fail(errs, fmt.Errorf("panic in the sink of route %s: %v", s.route.name, v))
		}
	}()
	results := s.route.sink.(outbox.BatchDispatcher).DispatchBatch(ctx, s.msgs)
	if len(results) != len(s.msgs) {
		return
	}
	for i, at := range s.index {
		errs[at] = results[i]
	}
}

func (s *share) fail(errs []error, err error) {
	for _, at := range s.index {
		errs[at] = err
	}
}
