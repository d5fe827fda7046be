package redissink_test

import (
	"fmt"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestBothSidesOfAConnectionAreVerified(t *testing.T) {
	ours, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	port := testenv.FreePort(t)
	server := testenv.PrivateRedis(t, fmt.Sprint("tls-port ", port), "tls-cert-file "+ours.ServerCert, "tls-key-file "+ours.ServerKey,
		"tls-ca-cert-file "+ours.CA, "tls-auth-clients yes")
	client := "&tls_cert=" + ours.ClientCert + "&tls_key=" + ours.ClientKey
	secure := fmt.Sprintf("rediss://127.0.0.1:%d?timeout=5s", port)
	for _, tt := range []struct {
		name, url string
		arrives   bool
	}{
		{"both are who they say", secure + "&tls_ca=" + ours.CA + client, true},
		{"another authority", secure + "&tls_ca=" + others.CA + client, false},
		{"the system's authorities", secure + client, false},
		{"no certificate of the client", secure + "&tls_ca=" + ours.CA, false},
		{"a port without TLS", "rediss://" + server.Addr() + "?timeout=5s&tls_ca=" + ours.CA + client, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := open(t, tt.url)

			err := sink.Dispatch(t.Context(), message())

			if tt.arrives && err != nil || !tt.arrives && !outbox.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
