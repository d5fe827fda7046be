package rabbitsink

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

func TestOpenReadsURLs(t *testing.T) {
	tests := []struct {
		url, exchange, vhost string
		timeout              time.Duration
	}{
		{"amqp://h?exchange=events", "events", "/", 15 * time.Second},
		{"amqp://h/?exchange=events", "events", "/", 15 * time.Second},
		{"amqp://h/shop?exchange=events&heartbeat=5", "events", "shop", 15 * time.Second},
		{"amqp://h/a%2Fb?exchange=a%20b&timeout=3s", "a b", "a/b", 3 * time.Second},
		{"amqps://u:p%23@h:5671?exchange=", "", "/", 15 * time.Second},
		{"amqp://h?exchange=e&auth_mechanism=plain&auth_mechanism=amqplain", "e", "/", 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			s, err := Open(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			uri, err := amqp091.ParseURI(s.cfg.URL)
			if err != nil {
				t.Fatal(err)
			}
			if s.cfg.Exchange != tt.exchange || uri.Vhost != tt.vhost || s.cfg.Timeout != tt.timeout {
				t.Errorf("exchange %q, vhost %q, timeout %s", s.cfg.Exchange, uri.Vhost, s.cfg.Timeout)
			}
		})
	}
}

func TestOpenNamesEveryMistakeAndNoSecret(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "ca.pem")
	tests := []struct{ name, url, want string }{
		{"empty", "", "is required"},
		{"another scheme", "kafka://u:canary@h?exchange=e", `the scheme is "kafka"`},
		{"no host", "amqp:///v?exchange=e", "no host"},
		{"unreadable", "amqp://u:canary@h:port/?exchange=e", "cannot be read"},
		{"no exchange", "amqp://u:canary@h/", `"exchange" is required`},
		{"an unknown parameter", "amqp://u:canary@h/?exchange=e&retries=3", `unknown parameter "retries"`},
		{"a parameter twice", "amqp://u:canary@h/?exchange=e&exchange=f", `"exchange" is there twice`},
		{"a bad timeout", "amqp://u:canary@h/?exchange=e&timeout=15", `"timeout" is no duration`},
		{"a negative timeout", "amqp://u:canary@h/?exchange=e&timeout=-1s", `"timeout" is no duration`},
		{"a bad heartbeat", "amqp://u:canary@h/?exchange=e&heartbeat=often", "is a parameter no number?"},
		{"no such file", "amqps://u:canary@h/?exchange=e&cacertfile=" + missing, "cacertfile"},
		{"a password with #", "amqp://u:ca@h/#nary?exchange=e", "must not hold a fragment"},
		{"a hostile exchange", "amqp://u:canary@h/?exchange=a%0Ab", "exchange: is no name"},
		{"a long exchange", "amqp://u:canary@h/?exchange=" + strings.Repeat("e", 256), "exchange: is no name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(tt.url)
			if !errors.Is(err, outbox.ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

func TestNewRefusesWhatItDoesItself(t *testing.T) {
	_, err := New(Config{URL: "amqp://h/?exchange=e", Timeout: -1, Client: amqp091.Config{Recovery: &amqp091.Recovery{}}})

	for _, want := range []string{"is for Open", "timeout: is negative", "must not recover"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
