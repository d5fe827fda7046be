package testenv

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// echo starts a server that answers every byte with itself.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			})
		}
	})
	t.Cleanup(func() { listener.Close(); group.Wait() })
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// exchange sends a byte and waits for the answer.
func exchange(conn net.Conn, patience time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

func TestProxyResetsConnections(t *testing.T) {
	p := NewProxy(t, echo(t))
	before := dial(t, p.Addr())
	if err := exchange(before, 10*time.Second); err != nil {
		t.Fatal(err)
	}

	p.Reset()

	for name, conn := range map[string]net.Conn{"old": before, "new": dial(t, p.Addr())} {
		if err := exchange(conn, 10*time.Second); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s connection: got %v, want a reset", name, err)
		}
	}
	p.Heal()
	if err := exchange(dial(t, p.Addr()), 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func TestProxyIsABlackhole(t *testing.T) {
	p := NewProxy(t, echo(t))
	before := dial(t, p.Addr())
	if err := exchange(before, 10*time.Second); err != nil {
		t.Fatal(err)
	}

	p.Blackhole()

	for name, conn := range map[string]net.Conn{"old": before, "new": dial(t, p.Addr())} {
		if err := exchange(conn, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection: got %v, want silence", name, err)
		}
	}
	p.Heal()
	if err := exchange(before, 10*time.Second); err == nil {
		t.Error("a connection that lost something goes on")
	}
	if err := exchange(dial(t, p.Addr()), 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func TestProxyIsSlow(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dial(t, p.Addr())
	p.Slow()
	start := time.Now()

	if err := exchange(conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}

	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("it took %s, want 100ms each way", took)
	}
	p.Heal()
	if err := exchange(conn, 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func TestProxyIsDown(t *testing.T) {
	p := NewProxy(t, echo(t))
	before := dial(t, p.Addr())
	p.Down()

	if err := exchange(before, 10*time.Second); err == nil {
		t.Error("a connection survived")
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want a refusal", err)
	}
	address := p.Addr()
	p.Heal()
	if p.Addr() != address {
		t.Errorf("it moved from %s to %s", address, p.Addr())
	}
	if err := exchange(dial(t, p.Addr()), 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}
