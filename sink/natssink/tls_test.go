package natssink_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestBothSidesOfAConnectionAreVerified(t *testing.T) {
	ours, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	server := testenv.PrivateNATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }",
		ours.ServerCert, ours.ServerKey, ours.CA))
	js, err := jetstream.New(connect(t, "tls://"+server.Addr(), nats.Secure(ours.Client(t))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "shop", Subjects: []string{"shop.>"}}); err != nil {
		t.Fatal(err)
	}
	client := "&tls_cert=" + ours.ClientCert + "&tls_key=" + ours.ClientKey
	for _, tt := range []struct {
		name, scheme, options string
		arrives               bool
	}{
		{"both are who they say", "tls", "&tls_ca=" + ours.CA + client, true},
		{"the server asks for TLS", "nats", "&tls_ca=" + ours.CA + client, true},
		{"another authority", "tls", "&tls_ca=" + others.CA + client, false},
		{"the system's authorities", "tls", client, false},
		{"no certificate of the client", "tls", "&tls_ca=" + ours.CA, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := open(t, tt.scheme+"://"+server.Addr()+"?timeout=5s"+tt.options)

			err := sink.Dispatch(t.Context(), message("shop.order.placed.v1"))

			if tt.arrives && err != nil || !tt.arrives && !outbox.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAServerWithoutTLSIsRefusedWhereTLSIsDemanded(t *testing.T) {
	server := testenv.PrivateNATS(t)
	sink := open(t, "tls://"+server.Addr()+"?timeout=5s")

	if err := sink.Dispatch(t.Context(), message("shop.order.placed.v1")); !outbox.IsUnavailable(err) {
		t.Errorf("got %v, want unavailable", err)
	}
}
