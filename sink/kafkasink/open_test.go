package kafkasink_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/kafkasink"
)

func TestAClientThatCouldLoseMessagesIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // "" is a good one
		opts []kgo.Opt
	}{
		{"defaults", "", nil},
		{"ours", "", kafkasink.Options()},
		{"one ack", "all in-sync replicas", []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}},
		{"not idempotent", "idempotent", []kgo.Opt{kgo.DisableIdempotentWrite()}},
		{"cancels", "in flight", []kgo.Opt{kgo.AllowIdempotentProduceCancellation()}},
		{"flushed by hand", "send by itself", []kgo.Opt{kgo.ManualFlushing()}},
		{"one topic for all", "topic", []kgo.Opt{kgo.DefaultProduceTopic("t"), kgo.DefaultProduceTopicAlways()}},
		{"transactional", "transactional", []kgo.Opt{kgo.TransactionalID("x")}},
		{"a consumer", "consume", []kgo.Opt{kgo.ConsumeTopics("t")}},
		{"in a group", "consume", []kgo.Opt{kgo.ConsumerGroup("g")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, err := kgo.NewClient(append(tt.opts, kgo.SeedBrokers("127.0.0.1:1"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()

			_, err = kafkasink.New(client, kafkasink.Config{})

			if tt.want == "" && err != nil {
				t.Error(err)
			}
			if tt.want != "" && (outbox.CodeOf(err) != "OUTBOX_INVALID_CONFIG" || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := kafkasink.New(nil, kafkasink.Config{}); err == nil {
		t.Error("a sink without a client")
	}
}

func TestURLs(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, want string }{
		{"kafka://broker", ""},
		{"kafka://broker/", ""},
		{"kafka://broker:9092", ""},
		{"kafka://a:9092,b:9093,[::1]:9094,[::1]", ""},
		{"kafka://broker?tls=true", ""},
		{"kafka://user:canary@broker?tls=true&sasl=plain", ""},
		{"kafka://user:c%40nary%2F@broker?sasl=scram-sha-256", ""},
		{"kafka://user:canary@broker?sasl=scram-sha-512&tls=1", ""},
		{"kafka://broker?compression=zstd&linger=5ms&delivery_timeout=30s&max_message_bytes=2000000&client_id=shop&probe_after=2s", ""},

		{"", "kafka://"},
		{"amqp://broker", "kafka://"},
		{"kafka://", "brokers"},
		{"kafka://a,,b", "brokers"},
		{"kafka://broker:port", "brokers"},
		{"kafka://broker:0", "brokers"},
		{"kafka://broker/topic", "brokers"},
		{"kafka://broker?ttls=true", `unknown option "ttls"`},
		{"kafka://broker?tls=perhaps", "tls"},
		{"kafka://broker?tls=true&tls=false", "2 times"},
		{"kafka://broker?%zz", "options"},
		{"kafka://broker?compression=rar", "compression"},
		{"kafka://broker?linger=-1s", "linger"},
		{"kafka://broker?probe_after=0s", "probe_after"},
		{"kafka://broker?cert_file=x.pem", "need tls=true"},
		{"kafka://broker?tls=true&cert_file=" + empty, "cert_file and key_file"},
		{"kafka://broker?delivery_timeout=10ms", "delivery_timeout"},
		{"kafka://broker?max_message_bytes=lots", "max_message_bytes"},
		{"kafka://broker?ca_file=x.pem", "need tls=true"},
		{"kafka://broker?tls=true&ca_file=" + empty, "holds no certificates"},
		{"kafka://broker?sasl=plain", "a user and a password"},
		{"kafka://user@broker?sasl=scram-sha-256", "a user and a password"},
		{"kafka://user:canary@broker?sasl=plain", "in the clear"},
		{"kafka://user:canary@broker", "want plain, scram"},
		{"kafka://user:canary%zz@broker?sasl=plain", "percent-encoded"},
		{"kafka://user:canary@broker:port?sasl=gssapi&x=1", "unknown option"},
	} {
		sink, err := kafkasink.Open(tt.url)
		if err == nil {
			_ = sink.Close()
		}
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.url, err)
		case tt.want != "" && (outbox.CodeOf(err) != "OUTBOX_INVALID_CONFIG" || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %q in it", tt.url, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("the password is in %v", err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, seed := range []string{"kafka://user:pw@a:1,b:2?tls=true&sasl=plain", "kafka://[::1]", "kafka://@?"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, url string) {
		if sink, err := kafkasink.Open(url); err == nil {
			_ = sink.Close()
		}
	})
}

func TestALoginIsUsedAndNotShown(t *testing.T) {
	cluster := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "relay", "p@ss:canary"), kfake.SeedTopics(1, topic))
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	open := func(login string) *kafkasink.Sink {
		sink, err := kafkasink.Open("kafka://" + login + "@" + brokers + "?sasl=scram-sha-256")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sink.Close() })
		return sink
	}

	if err := dispatch(t, open("relay:p%40ss%3Acanary"), 20*time.Second, message(topic, 1)); err != nil {
		t.Error(err)
	}
	err := dispatch(t, open("relay:canary2"), 20*time.Second, message(topic, 1))
	if !outbox.IsUnavailable(err) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestAClosedSinkSendsNothing(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	sink, err := kafkasink.Open("kafka://" + cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	if err := dispatch(t, sink, 20*time.Second, message(topic, 1)); err == nil || outbox.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheCallersClientStaysOpen(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	client := newClient(t, cluster.ListenAddrs()...)
	sink := newSink(t, client)
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	if err := client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRecordsOfOthersAreNotOurs(t *testing.T) {
	_, err := kafkasink.Parse(&kgo.Record{Topic: "theirs", Partition: 2, Offset: 7, Value: []byte("x")})

	if err == nil || !strings.Contains(err.Error(), "theirs/2@7") {
		t.Errorf("got %v", err)
	}
}

func TestTopicsThatKafkaCannotHaveAreRefused(t *testing.T) {
	sink := newSink(t, newClient(t, "127.0.0.1:1")) // nobody is asked
	for _, name := range []string{".", "..", "a/b", "a:b", "a*", strings.Repeat("t", 250)} {
		if err := dispatch(t, sink, 20*time.Second, message(name, 1)); !outbox.IsPermanent(err) {
			t.Errorf("%.20s: %v", name, err)
		}
	}
}
