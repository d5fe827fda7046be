package natssink_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/natssink"
)

func TestAURLThatCannotBeUsedIsNamedAndNotShown(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ url, want string }{
		{"", "want nats:// or tls://"},
		{"kafka://u:canary@h", "want nats:// or tls://"},
		{"nats://u:canary@", "cannot be read"},
		{"nats://u:canary@h:4222,", "cannot be read"},
		{"nats://u:canary@h:port", "cannot be read"},
		{"nats://u:canary@h/path", "path"},
		{"nats://u:canary@h#fragment", "fragment"},
		{"nats://u:canary@h?colour=red", `unknown parameter "colour"`},
		{"nats://u:canary@h?colour=red", "creds, domain, name, nkey, timeout, tls_ca, tls_cert, tls_key"},
		{"nats://u:canary@h?timeout=soon", "timeout"},
		{"nats://u:canary@h?timeout=-1s", "must be positive"},
		{"nats://u:canary@h?timeout=1s&timeout=2s", "twice"},
		{"nats://u:canary@h?creds=/does/not/exist", "creds"},
		{"nats://u:canary@h?nkey=" + secret, "nkey"},
		{"nats://u:canary@h?tls_cert=" + secret, "belong together"},
		{"nats://u:canary@h?domain=a.*", "domain"},
		{"nats://u:canary@h?a=1;b=2", "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			_, err := natssink.Open(tt.url)
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
	server := testenv.PrivateNATS(t)
	server.Kill()
	sink := open(t, server.URL()+"?timeout=5s&name=late")

	if err := sink.Dispatch(t.Context(), message("a.b.c.v1")); !outbox.IsUnavailable(err) {
		t.Errorf("got %v, want unavailable", err)
	}
	server.Start()

	awaitPing(t, sink, true)
}

func TestASinkUsesTheServerThatIsUp(t *testing.T) {
	down := testenv.PrivateNATS(t)
	up := testenv.PrivateNATS(t)
	down.Kill()

	sink := open(t, "nats://"+down.Addr()+","+up.Addr())

	awaitPing(t, sink, true)
}
