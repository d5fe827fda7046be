package redissink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/redissink"
)

func TestAURLThatCannotBeUsedIsNamedAndNotShown(t *testing.T) {
	tests := []struct{ url, want string }{
		{"", "want redis:// or rediss://"},
		{"kafka://:canary@h", "want redis:// or rediss://"},
		{"redis://:canary@", "cannot be read"},
		{"redis://:canary@h:6379,", "cannot be read"},
		{"redis://:canary@h:port", "cannot be read"},
		{"redis://:canary@h/name", "number of a database"},
		{"redis://:canary@h/-1", "number of a database"},
		{"redis://:canary@h#fragment", "fragment"},
		{"redis://:canary@h?colour=red", `unknown parameter "colour"`},
		{"redis://:canary@h?colour=red", "cluster, master, max_len, max_payload, pool_size, replica_timeout, replicas, timeout, tls_ca, tls_cert, tls_key"},
		{"redis://:canary@h?max_len=many", "max_len"},
		{"redis://:canary@h?max_len=1&max_len=2", "twice"},
		{"redis://:canary@h?timeout=0s", "must be positive"},
		{"redis://:canary@h?replicas=-1", "replicas"},
		{"redis://:canary@h?replicas=1&replica_timeout=1h", "read timeout"},
		{"redis://:canary@h,h2?replicas=1", "cluster"},
		{"redis://:canary@h,h2/3", "database 0 only"},
		{"redis://:canary@h?tls_ca=/x", "need rediss://"},
		{"rediss://:canary@h?tls_ca=/does/not/exist", "tls_ca"},
		{"rediss://:canary@h?tls_cert=/does/not/exist", "tls_cert"},
		{"redis://:canary@h?a=1;b=2", "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			_, err := redissink.Open(tt.url)
			if !errors.Is(err, outbox.ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

func TestAServerThatIsDownIsNoErrorAtOpen(t *testing.T) {
	server := testenv.PrivateRedis(t)
	server.Kill()
	sink := open(t, server.URL())

	if err := sink.Dispatch(t.Context(), message()); !outbox.IsUnavailable(err) {
		t.Errorf("got %v, want unavailable", err)
	}
	server.Start()

	if err := sink.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
