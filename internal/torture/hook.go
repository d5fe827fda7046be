package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/webhook"
)

// A Hook is where the shipped program delivers to: the recorder of a relay, on the other
// side of a connection. It writes down what it is handed before it answers.
type Hook struct {
	sink     Sink
	dir      string
	seed     uint64
	weather  string
	address  string
	secret   string // a file
	verifier *webhook.Verifier

	mu        sync.Mutex
	dice      *rand.Rand           // guarded by mu
	recorders map[string]*recorder // by process; guarded by mu
	server    *http.Server         // nil: nobody listens; guarded by mu
}

// maxClockError is how wrong a relay's clock may be for its signatures to count: more
// than any step.
const maxClockError = 48 * time.Hour

// newHook starts to listen, until t ends.
func (r *Run) newHook(sink Sink) *Hook {
	r.t.Helper()
	secret := webhook.NewSecret()
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}, Tolerance: maxClockError})
	if err != nil {
		r.t.Fatal(err)
	}
	h := &Hook{
		sink: sink, dir: r.dir, seed: r.Seed, weather: r.weatherFile(), secret: filepath.Join(r.dir, "webhook.secret"), verifier: verifier,
		dice: dice(r.Seed, "hook"), recorders: make(map[string]*recorder),
	}
	if err := os.WriteFile(h.secret, []byte(secret.Reveal()+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	h.listenSomewhere(r.t)
	r.t.Cleanup(h.close)
	return h
}

// listenSomewhere finds a port that no system gives to an outgoing connection, so that
// nobody has it when the hook comes back.
func (h *Hook) listenSomewhere(t testing.TB) {
	t.Helper()
	for range 100 {
		h.address = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if h.listen() == nil {
			return
		}
	}
	t.Fatal("no port between 20000 and 30000 is free")
}

func (h *Hook) listen() error {
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.Handle("POST /{relay}", http.HandlerFunc(h.receive))
	server := &http.Server{
		Handler: routes, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	h.mu.Lock()
	h.server = server
	h.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // it ends when the server is shut down
	return nil
}

// connection is the key of a request's connection in its context.
type connection struct{}

// leave stops listening. Whoever is being served is served to the end, so that nobody's
// answer is lost; everybody else is refused.
func (h *Hook) leave(ctx context.Context) error {
	h.mu.Lock()
	server := h.server
	h.mu.Unlock()
	return server.Shutdown(ctx)
}

func (h *Hook) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.server.Close() // nobody delivers any more
	for _, r := range h.recorders {
		_ = r.journal.Close()
	}
}

// receive is the receiver that a consumer writes with package webhook.
func (h *Hook) receive(w http.ResponseWriter, req *http.Request) {
	s, err := h.recorder(req.PathValue("relay"))
	if err != nil {
		panic(err) // without its journal a run shows nothing
	}
	h.verifier.Receive(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		err := s.Dispatch(ctx, msg)
		if errors.Is(err, errLost) {
			h.lose(ctx)
		}
		return err
	}).ServeHTTP(w, req)
}

func (h *Hook) recorder(relay string) (*recorder, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.recorders[relay]; r != nil {
		return r, nil
	}
	j, err := openJournal(journalPath(h.dir, relay))
	if err != nil {
		return nil, err
	}
	r := &recorder{Sink: h.sink, relay: relay, journal: j, weather: weather{path: h.weather}, dice: dice(h.seed, relay)}
	h.recorders[relay] = r
	return r, nil
}

// lose answers a message that was kept in a way that says nothing: with an error, with a
// reset connection, or not before the relay has given up.
func (h *Hook) lose(ctx context.Context) {
	h.mu.Lock()
	how := h.dice.IntN(10)
	h.mu.Unlock()
	switch {
	case how < 4: // an error
	case how < 9:
		if c, ok := ctx.Value(connection{}).(*net.TCPConn); ok {
			_ = c.SetLinger(0) // it is only less rude without
		}
		panic(http.ErrAbortHandler)
	default:
		wait(ctx, 2*dispatchTimeout)
	}
}

// hookGone makes the hook refuse connections for a while.
func (r *Run) hookGone(ctx context.Context, dice *rand.Rand) Fault {
	d := between(dice, 300*time.Millisecond, 2*time.Second)
	if err := r.hook.leave(ctx); err != nil {
		r.t.Errorf("shut the hook down: %v", err)
	}
	wait(ctx, d)
	if err := r.hook.listen(); err != nil {
		r.t.Fatalf("the hook cannot come back: %v", err)
	}
	return Fault{Hit: true, Targets: []string{"sink"}, Detail: d.Round(time.Millisecond).String()}
}
