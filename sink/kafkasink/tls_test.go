package kafkasink_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/kafkasink"
)

func TestBothSidesOfAConnectionAreVerified(t *testing.T) {
	ours, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	cluster := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "shop"), kfake.TLS(ours.Server(t)))
	broker := "kafka://" + cluster.ListenAddrs()[0] + "?probe_after=200ms"
	client := "&cert_file=" + ours.ClientCert + "&key_file=" + ours.ClientKey
	for _, tt := range []struct {
		name, options string
		arrives       bool
	}{
		{"both are who they say", "&tls=true&ca_file=" + ours.CA + client, true},
		{"another authority", "&tls=true&ca_file=" + others.CA + client, false},
		{"the system's authorities", "&tls=true" + client, false},
		{"no certificate of the client", "&tls=true&ca_file=" + ours.CA, false},
		{"no TLS", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink, err := kafkasink.Open(broker + tt.options)
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()

			err = sink.Dispatch(t.Context(), message("shop", 1))

			if tt.arrives && err != nil || !tt.arrives && !outbox.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
