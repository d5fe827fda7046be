package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// Config describes a console. Stores and Auth are required.
type Config struct {
	// Stores are the tables to show, in this order.
	Stores []Source
	// Auth says who may come in.
	Auth Auth
	// Path is where the console is mounted, such as /ops/outbox. Requests arrive with
	// it: do not strip it. Defaults to the root.
	Path string
	// Hosts are the names that the console answers to, without ports; any other Host
	// is refused, so that no web page can reach a loopback console by rebinding a
	// name. "*" admits every name. Defaults to localhost and the loopback addresses.
	Hosts []string
	// Secure says that browsers use https although this process sees plain http,
	// because a proxy terminates TLS. Cookies are then marked as secure.
	Secure bool
	// ReadOnly refuses every change, whatever the role.
	ReadOnly bool
	// PayloadRole is the least role that may see payloads. Each look is recorded.
	// Defaults to RoleAdmin.
	PayloadRole Role
	// Mask, when set, changes a payload before it is shown.
	Mask func(topic string, payload []byte) []byte
	// Health says when the banner warns.
	Health Health
	// Timeout bounds the work of one request. Defaults to 10 s.
	Timeout time.Duration
	// Every is how often a watched table is sampled. Defaults to 2 s.
	Every time.Duration
	// Idle and Lifetime end a session: without a request, and in any case. They
	// default to 30 minutes and 12 hours.
	Idle, Lifetime time.Duration
	// Version and Facts are shown under Settings. Facts must hold no secrets.
	Version string
	Facts   []Fact
	// Log receives refused requests, logins, changes and errors. Defaults to nothing.
	Log *slog.Logger
}

// A Source is one table.
type Source struct {
	// Name is what the console calls it. Required and unique; usually the table.
	Name      string
	Inspector outbox.Inspector
	// Operator changes the table. Nil makes it read-only.
	Operator outbox.Operator
	// Routes says where messages of a topic go; none means that nothing takes them.
	// Optional: it makes explanations more exact.
	Routes func(topic string) []string
}

// A Fact is one line under Settings.
type Fact struct{ Name, Value string }

// Health says when a table is reported as unwell. Zero fields have the thresholds of the
// shipped alert rules.
type Health struct {
	// OldestWarn and OldestBad are ages of the oldest message that is due. They
	// default to 1 and 5 minutes.
	OldestWarn, OldestBad time.Duration
	// Backlog and Retrying are how many messages may wait. Default 1000 and 100.
	Backlog, Retrying int
	// Dead is how many dead messages are an alarm and no longer a warning.
	// Defaults to 10.
	Dead int
}

func (h *Health) complete() {
	setDefault(&h.OldestWarn, time.Minute)
	setDefault(&h.OldestBad, 5*time.Minute)
	setDefault(&h.Backlog, 1000)
	setDefault(&h.Retrying, 100)
	setDefault(&h.Dead, 10)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Console serves the pages and the API. Make it with New, mount it, and Close it when
// the server has stopped. It is safe for concurrent use.
type Console struct {
	cfg      Config
	base     string       // Path without its last slash
	id       string       // names this process as the driver of jobs
	entry    http.Handler // guards the mux
	mux      *http.ServeMux
	origin   *http.CrossOriginProtection
	pages    map[string]*page
	auth     *authenticator
	sessions *sessions
	samples  *sampler
	jobs     *drivers
	once     *onceBook
	refusals *refusals
	streams  chan struct{} // a token for each open event stream
	closing  sync.Once
	done     chan struct{} // closed by Close
}

// New makes a console and reports every mistake in its configuration. It does no I/O.
func New(cfg Config) (*Console, error) {
	setDefault(&cfg.Timeout, 10*time.Second)
	setDefault(&cfg.Every, 2*time.Second)
	setDefault(&cfg.Idle, 30*time.Minute)
	setDefault(&cfg.Lifetime, 12*time.Hour)
	setDefault(&cfg.PayloadRole, RoleAdmin)
	cfg.Health.complete()
	if cfg.Hosts == nil {
		cfg.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	auth, err := newAuthenticator(cfg.Auth)
	if err := errors.Join(err, cfg.check()); err != nil {
		return nil, fmt.Errorf("new console: %w", err)
	}
	c := &Console{
		cfg:      cfg,
		base:     strings.TrimSuffix(cfg.Path, "/"),
		id:       "console-" + uuid.NewString()[:8],
		origin:   http.NewCrossOriginProtection(),
		pages:    parsePages(),
		auth:     auth,
		sessions: newSessions(cfg.Idle, cfg.Lifetime),
		samples:  newSampler(cfg.Stores, cfg.Every),
		jobs:     newDrivers(),
		once:     newOnceBook(),
		refusals: newRefusals(),
		streams:  make(chan struct{}, maxStreams),
		done:     make(chan struct{}),
	}
	c.mux = c.routes()
	c.entry = c.viewed(c.guard)
	return c, nil
}

func (cfg *Config) check() error {
	var errs []error
	bad := func(field, text string) { errs = append(errs, outbox.ErrInvalidConfig.With(field, text)) }
	if len(cfg.Stores) == 0 {
		bad("Stores", "is required: which tables?")
	}
	seen := map[string]bool{}
	for i, s := range cfg.Stores {
		field := fmt.Sprintf("Stores[%d]", i)
		switch {
		case s.Name == "":
			bad(field+".Name", "is required")
		case seen[s.Name]:
			bad(field+".Name", fmt.Sprintf("%q is there twice", s.Name))
		}
		if s.Inspector == nil {
			bad(field+".Inspector", "is required")
		}
		seen[s.Name] = true
	}
	if cfg.Path != "" && (!strings.HasPrefix(cfg.Path, "/") || strings.Contains(cfg.Path, "//")) {
		bad("Path", "must begin with one slash")
	}
	if cfg.PayloadRole.rank() == 0 {
		bad("PayloadRole", "must be viewer, operator or admin")
	}
	return errors.Join(errs...)
}

// Close stops driving jobs and ends event streams, and waits for the jobs' goroutines. A
// job that was running stays recorded, and any console or command line can go on with
// it. Close before the server shuts down, which waits for the streams.
func (c *Console) Close() {
	c.closing.Do(func() { close(c.done) })
	c.jobs.close()
}

// Refused reports how many requests were refused, by reason.
func (c *Console) Refused() map[string]int64 { return c.refusals.all() }

// source finds a table by name; the empty name is the first one.
func (c *Console) source(name string) (*Source, bool) {
	if name == "" {
		return &c.cfg.Stores[0], true
	}
	i := slices.IndexFunc(c.cfg.Stores, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &c.cfg.Stores[i], true
}
