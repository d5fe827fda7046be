package webhooksink

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errClosed = errors.New("the sink is closed")

// A pool knows the connections of a sink, so that Close leaves none behind: the
// transport closes idle ones only, and over HTTP/2 one that has just lost a request
// is not idle for a while.
type pool struct {
	dialer *net.Dialer

	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
}

type conn struct {
	net.Conn
	pool *pool
}

func (p *pool) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := p.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		raw.Close()
		return nil, errClosed
	}
	p.open[c] = struct{}{}
	return c, nil
}

func (c *conn) Close() error {
	c.pool.mu.Lock()
	delete(c.pool.open, c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		c.Conn.Close()
	}
}
