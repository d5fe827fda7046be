package testenv

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTestsOfOneKafkaDoNotShareTopics(t *testing.T) {
	broker := Kafka(t)
	first, second := broker.Topic(t, 1), broker.Topic(t, 3, "max.message.bytes=10000")
	if first == second {
		t.Fatalf("both are %s", first)
	}

	produce(t, broker.Address(), first, "mine")

	if got := consume(t, broker.Address(), first, 1); got[0] != "mine" {
		t.Errorf("got %q", got)
	}
}

func TestAKilledKafkaKeepsWhatItAcknowledged(t *testing.T) {
	broker := PrivateKafka(t)
	topic := broker.Topic(t, 1)
	produce(t, broker.Address(), topic, "before")

	broker.Kill()
	broker.Start()
	produce(t, broker.Address(), topic, "after")

	if got := strings.Join(consume(t, broker.Address(), topic, 2), " "); got != "before after" {
		t.Errorf("got %q", got)
	}
}

func TestInstallFetchesWhatNoPackageHolds(t *testing.T) {
	fetched := false
	half := Backend{
		Name: "half", packages: []string{"no-such-package"},
		find: func() error {
			if fetched {
				return nil
			}
			return errors.New("the rest is missing")
		},
		fetch: func(io.Writer) error { fetched = true; return nil },
	}

	if err := Install(io.Discard, []Backend{half}); err != nil || !fetched {
		t.Errorf("fetched: %v, %v", fetched, err)
	}
}

func produce(t *testing.T, address, topic, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, address, topic string, n int) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for len(values) < n {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}
