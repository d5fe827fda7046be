package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Continue sends messages of these topics to this route and to the next one
	// that matches, too. Each is acknowledged and retried on its own.
	Continue bool
	// Policy is how the relay treats the route: rate, concurrency, retries, order.
	Policy outbox.RoutePolicy
}

// A Router hands each message to the sinks of its routes. Make it with NewRouter. It
// is safe for concurrent use if its sinks are. It is an outbox.BatchDispatcher too if
// every one of its sinks is: otherwise messages of those that are not would go one
// after the other, while the relay dispatches single messages side by side. It is an
// outbox.FanOut if one of its routes continues.
type Router interface {
	outbox.Dispatcher
	outbox.PolicyRouter
	// Check returns an error that wraps outbox.ErrNoRoute for every topic that
	// no route takes, for programs that know their topics at the start.
	Check(topics ...string) error
}

var (
	_ Router                 = (*router)(nil)
	_ Router                 = (*batchRouter)(nil)
	_ outbox.BatchDispatcher = (*batchRouter)(nil)
	_ outbox.FanOut          = fanRouter{}
	_ outbox.FanOut          = fanBatchRouter{}
)

type router struct {
	routes map[string]*route
	// Without a route that continues: exact are the patterns without wildcards,
	// nothing before them takes their topic; wild are the others, in order.
	// Otherwise wild are all of them.
	exact map[string]*route
	wild  []entry
}

type entry struct {
	pattern pattern
	route   *route
}

type route struct {
	name      string
	sink      outbox.Dispatcher
	topic     template
	envelope  Envelope
	continues bool
	policy    outbox.RoutePolicy
}

// fanRouter and fanBatchRouter are routers with a route that continues.
type fanRouter struct{ *router }

// Routes names all routes of a topic.
func (r fanRouter) Routes(topic string) []string { return r.names(topic) }

type fanBatchRouter struct{ *batchRouter }

// Routes names all routes of a topic.
func (r fanBatchRouter) Routes(topic string) []string { return r.names(topic) }

// NewRouter makes a router. It reports every mistake in the routes at once, also
// patterns that can never match because others before them take all their topics.
func NewRouter(routes ...Route) (Router, error) {
	r := &router{routes: make(map[string]*route), exact: make(map[string]*route)}
	if err := r.build(routes); err != nil {
		return nil, err
	}
	isBatch := func(route Route) bool { _, ok := route.Sink.(outbox.BatchDispatcher); return ok }
	batches := !slices.ContainsFunc(routes, func(route Route) bool { return !isBatch(route) })
	fans := slices.ContainsFunc(routes, func(route Route) bool { return route.Continue })
	switch {
	case batches && fans:
		return fanBatchRouter{&batchRouter{r}}, nil
	case batches:
		return &batchRouter{r}, nil
	case fans:
		return fanRouter{r}, nil
	}
	return r, nil
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
		r.routes[cfg.Name] = target
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
	fans := slices.ContainsFunc(routes, func(route Route) bool { return route.Continue })
	for _, e := range taken {
		if e.pattern.literal() && !fans {
			r.exact[string(e.pattern)] = e.route
		} else {
			r.wild = append(r.wild, e)
		}
	}
	return errors.Join(errs...)
}

// Validate reports every mistake in the route, for programs that read routes from a
// file and know where each stands.
func (c Route) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, outbox.ErrInvalidConfig.With(field, fmt.Sprintf(format, args...)))
	}
	c.build("route "+c.Name, bad)
	for _, text := range c.Topics {
		if _, err := parsePattern(text); err != nil {
			bad("route "+c.Name, "%v", err)
		}
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
	if p := c.Policy; p.Rate < 0 || p.Concurrency < 0 {
		bad(field, "rate and concurrency must not be negative")
	}
	if c.Policy.Retry != nil {
		if err := c.Policy.Retry.Validate(); err != nil {
			bad(field, "%v", err)
		}
	}
	return &route{name: c.Name, sink: c.Sink, topic: topic, envelope: c.Envelope, continues: c.Continue, policy: c.Policy}
}

func coveredBy(p pattern, taken []entry) *entry {
	for i := range taken {
		if !taken[i].route.continues && taken[i].pattern.covers(p) {
			return &taken[i]
		}
	}
	return nil
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

// findAll returns every route of a topic.
func (r *router) findAll(topic string, all []*route) []*route {
	if found := r.exact[topic]; found != nil {
		return append(all, found)
	}
	for _, e := range r.wild {
		if !e.pattern.matches(topic) || slices.Contains(all, e.route) {
			continue
		}
		all = append(all, e.route)
		if !e.route.continues {
			break
		}
	}
	return all
}

func (r *router) names(topic string) []string {
	all := r.findAll(topic, nil)
	names := make([]string, len(all))
	for i, route := range all {
		names[i] = route.name
	}
	return names
}

// Policy is the policy of a route.
func (r *router) Policy(name string) outbox.RoutePolicy {
	if found := r.routes[name]; found != nil {
		return found.policy
	}
	return outbox.RoutePolicy{}
}

// targets are the routes that a dispatch is for: those the relay names, or all that
// match.
func (r *router) targets(m *outbox.Meta, targets []*route) []*route {
	if m.Routes == nil {
		return r.findAll(m.Topic, targets)
	}
	for _, name := range m.Routes {
		if found := r.routes[name]; found != nil {
			targets = append(targets, found)
		}
	}
	return targets
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

// Dispatch hands msg to the sinks of its routes.
func (r *router) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	var space [2]*route
	targets := r.targets(&msg.Meta, space[:0])
	switch len(targets) {
	case 0:
		return noRoute(msg.Meta.Topic)
	case 1:
		return named(&msg.Meta, targets[0], targets[0].dispatch(ctx, msg))
	}
	results := make([]error, len(targets))
	var group sync.WaitGroup
	for i, to := range targets {
		group.Go(func() {
			results[i] = errNoResult // unless it returns
			defer func() {
				if v := recover(); v != nil {
					results[i] = fmt.Errorf("panic in the sink of route %s: %v", to.name, v)
				}
			}()
			results[i] = to.dispatch(ctx, msg)
		})
	}
	group.Wait()
	errs := outbox.RouteErrors{}
	for i, to := range targets {
		if results[i] != nil {
			errs[to.name] = results[i]
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// named says which route an error is of, when the relay asked for routes by name.
func named(m *outbox.Meta, to *route, err error) error {
	if err == nil || m.Routes == nil {
		return err
	}
	return outbox.RouteErrors{to.name: err}
}

func (r *route) dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := r.prepare(&msg); err != nil {
		return err
	}
	return r.sink.Dispatch(ctx, msg)
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
	msg.Meta.Topic, msg.Meta.Routes = topic, nil
	return nil
}

// A batchRouter is a router whose sinks all take batches.
type batchRouter struct{ *router }

var errNoResult = errors.New("the sink returned no result for this message")

// A share is one route's part of a batch.
type share struct {
	route   *route
	msgs    []outbox.DispatchedMessage
	index   []int // of each message in the batch
	results []error
}

// DispatchBatch gives every route its share of the batch, side by side: a route that
// hangs until the deadline must not take the others with it.
func (r *batchRouter) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	results := newResults(msgs)
	shares := r.split(msgs, results)
	var group sync.WaitGroup
	for i := 1; i < len(shares); i++ {
		group.Go(func() { shares[i].dispatch(ctx) })
	}
	if len(shares) > 0 {
		shares[0].dispatch(ctx)
	}
	group.Wait()
	for _, s := range shares {
		for i, at := range s.index {
			results.add(at, s.route, s.results[i])
		}
	}
	return results.errs
}

// split sorts the messages by route, and settles those that have none or cannot be
// sent.
func (r *batchRouter) split(msgs []outbox.DispatchedMessage, results *results) []*share {
	var shares []*share
	byRoute := map[*route]*share{}
	var targets []*route
	for i := range msgs {
		targets = r.targets(&msgs[i].Meta, targets[:0])
		if len(targets) == 0 {
			results.errs[i] = noRoute(msgs[i].Meta.Topic)
		}
		results.several[i] = len(targets) > 1 || msgs[i].Meta.Routes != nil
		for _, to := range targets {
			msg := msgs[i]
			if err := to.prepare(&msg); err != nil {
				results.add(i, to, err)
				continue
			}
			s := byRoute[to]
			if s == nil {
				s = &share{route: to}
				byRoute[to], shares = s, append(shares, s)
			}
			s.msgs, s.index = append(s.msgs, msg), append(s.index, i)
		}
	}
	return shares
}

// results are those of a batch. A message with several routes has one for each.
type results struct {
	errs    []error
	several []bool
}

func newResults(msgs []outbox.DispatchedMessage) *results {
	return &results{errs: make([]error, len(msgs)), several: make([]bool, len(msgs))}
}

func (r *results) add(i int, to *route, err error) {
	switch {
	case err == nil:
	case !r.several[i]:
		r.errs[i] = err
	default:
		all, _ := r.errs[i].(outbox.RouteErrors) //nolint:errorlint // made here: what a sink returns is inside of it
		if all == nil {
			all = outbox.RouteErrors{}
		}
		all[to.name] = err
		r.errs[i] = all
	}
}

// dispatch hands a share to its sink. Nothing but a result of the sink's own is a
// delivery: not a panic, and not the end of its goroutine.
func (s *share) dispatch(ctx context.Context) {
	s.fail(errNoResult)
	defer func() {
		if v := recover(); v != nil {
			s.fail(fmt.Errorf("panic in the sink of route %s: %v", s.route.name, v))
		}
	}()
	results := s.route.sink.(outbox.BatchDispatcher).DispatchBatch(ctx, s.msgs)
	if len(results) == len(s.msgs) {
		s.results = results
	}
}

func (s *share) fail(err error) {
	s.results = make([]error, len(s.msgs))
	for i := range s.results {
		s.results[i] = err
	}
}
