package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

// A link is one connection for as long as it lives.
type link struct {
	conn   *amqp091.Connection
	socket net.Conn
	broken atomic.Bool // a write has failed

	mu      sync.Mutex
	idle    []*channel
	open    int           // channels, those in use too
	blocked chan struct{} // closed while the broker blocks the connection
	why     string
}

// connect returns the link, a new one if the old one is dead. Its errors are outages:
// nothing was sent.
func (s *Sink) connect(ctx context.Context) (*link, error) {
	if l, err := s.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("rabbitmq: wait for a connection: %w", unsentError(ctx, context.Cause(ctx)))
	}
	if l, err := s.current(); l != nil || err != nil { // somebody else was faster
		return l, err
	}
	l, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("rabbitmq: connect: %w", unsentError(ctx, err))
	}
	return s.install(l)
}

// current returns the link if it is alive.
func (s *Sink) current() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("rabbitmq: %w", errClosed)
	}
	if s.link == nil || s.link.broken.Load() || s.link.conn.IsClosed() {
		return nil, nil
	}
	return s.link, nil
}

func (s *Sink) install(l *link) (*link, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.close()
		return nil, fmt.Errorf("rabbitmq: %w", errClosed)
	}
	s.link = l
	changes := l.conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	s.watchers.Go(func() { l.watch(changes) })
	s.mu.Unlock()
	return l, nil
}

// dial makes a connection. The client library knows no contexts: ctx ends the
// handshake by closing the socket under it.
func (s *Sink) dial(ctx context.Context) (*link, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	l := &link{blocked: make(chan struct{})}
	cfg := s.cfg.Client
	if cfg.TLSClientConfig != nil {
		cfg.TLSClientConfig = cfg.TLSClientConfig.Clone() // the library writes to it
	}
	if cfg.Properties == nil {
		cfg.Properties = amqp091.NewConnectionProperties()
		cfg.Properties.SetClientConnectionName("outbox")
	}
	release := func() {}
	dial := s.cfg.Client.Dial
	if dial == nil {
		dial = func(network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	cfg.Dial = func(network, address string) (net.Conn, error) {
		socket, err := dial(network, address)
		if err != nil {
			return nil, err
		}
		l.socket = socket
		release = l.guard(ctx)
		return socket, nil
	}
	conn, err := amqp091.DialConfig(s.cfg.URL, cfg)
	release()
	if err != nil {
		if l.socket != nil {
			l.socket.Close() // the library leaves it open after some errors
		}
		return nil, err
	}
	l.conn = conn
	return l, nil
}

// guard closes the socket if ctx ends before release is called. It is the only way to
// end a write, or a wait for an answer, that hangs; whoever shares the connection would
// hang as well, and loses it too.
func (l *link) guard(ctx context.Context) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		l.socket.Close()
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// writeFailed gives the link up, unless it is only a channel that was closed. The client
// library does as well, but later.
func (l *link) writeFailed(err error) {
	if !errors.Is(err, amqp091.ErrClosed) {
		l.broken.Store(true)
		l.socket.Close()
	}
}

// close says goodbye, to a broker that may not listen.
func (l *link) close() {
	patience := time.AfterFunc(closeTimeout, func() { l.socket.Close() })
	defer patience.Stop()
	_ = l.conn.Close() // it is gone either way
}

// watch keeps account of the broker's alarms until the connection ends.
func (l *link) watch(changes <-chan amqp091.Blocking) {
	for change := range changes {
		l.mu.Lock()
		if was := l.isBlocked(); change.Active && !was {
			l.why = change.Reason
			close(l.blocked)
		} else if !change.Active && was {
			l.blocked = make(chan struct{})
		}
		l.mu.Unlock()
	}
}

func (l *link) isBlocked() bool {
	select {
	case <-l.blocked:
		return true
	default:
		return false
	}
}

// alarm is closed once the broker blocks the connection.
func (l *link) alarm() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked
}

// blockedError is nil unless the broker blocks the connection: it then reads nothing,
// and a publish would hang.
func (l *link) blockedError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isBlocked() {
		return nil
	}
	return outbox.Unavailable(fmt.Errorf("the broker blocks the connection: %s", l.why))
}

var errNoConfirms = errors.New("the broker confirms nothing")

// take returns a channel for exclusive use.
func (l *link) take(ctx context.Context) (*channel, error) {
	l.mu.Lock()
	for i := len(l.idle) - 1; i >= 0; i-- {
		if ch := l.idle[i]; ch.settled() {
			l.idle = append(l.idle[:i], l.idle[i+1:]...)
			l.mu.Unlock()
			return ch, nil
		}
	}
	if l.open >= 2*maxChannels { // at least half of them wait for confirms that are overdue
		l.mu.Unlock()
		return nil, errNoConfirms
	}
	l.open++
	l.mu.Unlock()

	ch, err := l.openChannel(ctx)
	if err != nil {
		l.mu.Lock()
		l.open--
		l.mu.Unlock()
	}
	return ch, err
}

func (l *link) openChannel(ctx context.Context) (*channel, error) {
	defer l.guard(ctx)()
	raw, err := l.conn.Channel()
	if err != nil {
		return nil, err
	}
	ch := &channel{
		raw:     raw,
		returns: raw.NotifyReturn(make(chan amqp091.Return, maxInFlight)),
		closed:  raw.NotifyClose(make(chan *amqp091.Error, 1)),
	}
	if err := raw.Confirm(false); err != nil {
		return nil, err
	}
	return ch, nil
}

// giveBack takes a channel back, also one with confirms to come: it is not given to
// anybody else before it has them.
func (l *link) giveBack(ch *channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ch.raw.IsClosed() {
		l.open--
		return
	}
	l.idle = append(l.idle, ch)
}
