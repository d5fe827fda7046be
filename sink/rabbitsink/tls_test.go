package rabbitsink_test

import (
	"fmt"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/rabbitsink"
)

func TestBothSidesOfAConnectionAreVerified(t *testing.T) {
	ours, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	port := testenv.FreePort(t)
	server := testenv.PrivateRabbitMQ(t, fmt.Sprint("listeners.ssl.1 = 127.0.0.1:", port),
		"ssl_options.certfile = "+ours.ServerCert, "ssl_options.keyfile = "+ours.ServerKey, "ssl_options.cacertfile = "+ours.CA,
		"ssl_options.verify = verify_peer", "ssl_options.fail_if_no_peer_cert = true")
	in := newInbox(t, server.URL(), "shop")
	client := "&certfile=" + ours.ClientCert + "&keyfile=" + ours.ClientKey
	secure := fmt.Sprintf("amqps://guest:guest@127.0.0.1:%d/?exchange=shop&timeout=5s", port)
	for _, tt := range []struct {
		name, url string
		arrives   bool
	}{
		{"both are who they say", secure + "&cacertfile=" + ours.CA + client, true},
		{"another authority", secure + "&cacertfile=" + others.CA + client, false},
		{"the system's authorities", secure + client, false},
		{"no certificate of the client", secure + "&cacertfile=" + ours.CA, false},
		{"a port without TLS", "amqps://guest:guest@" + server.Addr() + "/?exchange=shop&timeout=5s&cacertfile=" + ours.CA + client, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink, err := rabbitsink.Open(tt.url)
			must(t, err)
			defer sink.Close()

			err = sink.Dispatch(t.Context(), message("shop.order.placed.v1"))

			if tt.arrives && err != nil || !tt.arrives && !outbox.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := len(in.received(t)); n != 1 {
		t.Errorf("%d messages arrived, want 1", n)
	}
}
