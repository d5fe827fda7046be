package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
)

// A Link is the way of one process to the database server. It can be broken without
// anybody else noticing, in one direction or both.
type Link struct {
	proxy *toxiproxy.Proxy
	wire  *wire // in front of it; nil for relays
	place Place
}

// newLink makes a link to a server. With a wire it can drop the answers to COMMIT.
func newLink(name string, to Place, wired bool) (*Link, error) {
	address, err := to.address()
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", address)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	address = l.proxy.Listen
	if wired {
		if l.wire, err = newWire(address, commitQueries[to.Driver]); err != nil {
			l.proxy.Stop()
			return nil, fmt.Errorf("link %s: %w", name, err)
		}
		address = l.wire.listener.Addr().String()
	}
	l.place, err = to.at(address)
	return l, err
}

// address is where the server listens.
func (p Place) address() (string, error) {
	if p.Driver == MySQL {
		cfg, err := mysql.ParseDSN(p.DSN)
		if err != nil {
			return "", err
		}
		return cfg.Addr, nil
	}
	u, err := url.Parse(p.DSN)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// at is the same database by another way.
func (p Place) at(address string) (Place, error) {
	if p.Driver == MySQL {
		cfg, err := mysql.ParseDSN(p.DSN)
		if err != nil {
			return p, err
		}
		cfg.Addr = address
		return Place{p.Driver, cfg.FormatDSN()}, nil
	}
	u, err := url.Parse(p.DSN)
	if err != nil {
		return p, err
	}
	u.Host = address
	return Place{p.Driver, u.String()}, nil
}

func (l *Link) close() {
	if l.wire != nil {
		l.wire.close()
	}
	l.proxy.Stop()
}

// A toxin is what is done to a link: a kind of toxiproxy, its attributes, and the
// direction it works in.
type toxin struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

// poison applies toxins until the returned function is called.
func (l *Link) poison(toxins ...toxin) (cure func(), err error) {
	for i := range toxins {
		toxins[i].Name = fmt.Sprintf("%s_%s", toxins[i].Type, toxins[i].Stream)
		text, err := json.Marshal(toxins[i])
		if err != nil {
			return nil, err
		}
		if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("poison %s: %w", l.proxy.Name, err)
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		l.proxy.Toxics.ResetToxics(ctx)
	}, nil
}

// A wire forwards bytes and knows one word: when it is armed, it lets a COMMIT through
// and drops the answer, so that the client never learns what became of it.
type wire struct {
	listener net.Listener
	to       string
	commit   []byte
	armed    atomic.Int64 // commits whose answer is still to be dropped
	dropped  atomic.Int64

	group sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// commitQueries are how the drivers say COMMIT: a simple query.
var commitQueries = map[Driver][]byte{
	Postgres: []byte("Q\x00\x00\x00\x0bcommit\x00"),
	MySQL:    []byte("\x07\x00\x00\x00\x03COMMIT"),
}

func newWire(to string, commit []byte) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, to: to, commit: commit, conns: make(map[net.Conn]struct{})}
	w.group.Go(w.accept)
	return w, nil
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.group.Go(func() { w.serve(client) })
	}
}

func (w *wire) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		client.Close()
		return
	}
	if !w.enter(client, server) {
		return
	}
	defer w.leave(client, server)
	var deaf atomic.Bool // the client is to hear no more
	var both sync.WaitGroup
	both.Go(func() {
		defer w.leave(client, server)
		forward(client, server, func(b []byte) bool {
			if bytes.Contains(b, w.commit) && w.armed.Load() > 0 && w.armed.Add(-1) >= 0 {
				w.dropped.Add(1)
				deaf.Store(true)
			}
			return true
		})
	})
	forward(server, client, func([]byte) bool { return !deaf.Load() })
	w.leave(client, server)
	both.Wait()
}

// forward copies until either side ends or pass says no.
func forward(from, to net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !pass(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) enter(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		if w.ended {
			c.Close()
			continue
		}
		w.conns[c] = struct{}{}
	}
	return !w.ended
}

func (w *wire) leave(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(w.conns, c)
	}
}

func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	w.ended = true
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.group.Wait()
}
