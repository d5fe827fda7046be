package testenv

import (
	"net"
	"strings"
	"testing"
)

func TestRabbitMQGivesEachTestItsOwnNames(t *testing.T) {
	a, b := RabbitMQ(t), RabbitMQ(t)

	if a.Name("orders") == b.Name("orders") {
		t.Errorf("both are %q", a.Name("orders"))
	}
	if a.Addr() != b.Addr() || !strings.Contains(a.URL(), a.Addr()) {
		t.Errorf("%s and %s, want one broker", a.URL(), b.URL())
	}
}

func TestPrivateRabbitMQIsKilledAndStartsAgain(t *testing.T) {
	r := PrivateRabbitMQ(t)
	address := r.Addr()
	r.Control("status")

	r.Kill()

	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it still takes connections")
	}
	r.Start()
	if err := r.server.greet(); err != nil || r.Addr() != address {
		t.Errorf("not back at %s: %v", address, err)
	}
}
