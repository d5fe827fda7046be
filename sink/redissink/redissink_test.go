package redissink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/redissink"
)

func TestStreamsAreTrimmedOnlyOnRequest(t *testing.T) {
	tests := []struct {
		name, query string
		least, most int64
	}{
		{"by default", "", 3000, 3000},
		{"max_len", "?max_len=1000", 1000, 1500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := testenv.Redis(t)
			sink := open(t, db.URL()+tt.query)
			for range 3 {
				delivered(t, sink.DispatchBatch(t.Context(), messages(1000)))
			}

			n := length(t, db)
			if n < tt.least || n > tt.most {
				t.Errorf("the stream has %d entries, want %d to %d", n, tt.least, tt.most)
			}
		})
	}
}

// What survives kill -9 is Redis' affair. This asserts it where a setting promises it,
// and shows it where none does.
func TestWhatSurvivesAKill(t *testing.T) {
	tests := []struct {
		setting string
		all     bool
	}{
		{"appendfsync always", true},
		{"appendfsync everysec", false},
		{"appendonly no", false},
	}
	for _, tt := range tests {
		t.Run(tt.setting, func(t *testing.T) {
			server := testenv.PrivateRedis(t, tt.setting)
			sink := open(t, server.URL())
			acknowledged := map[string]bool{}
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				<-time.After(200 * time.Millisecond)
				server.Kill()
			}()
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				msgs := messages(100)
				broken := false
				for i, err := range sink.DispatchBatch(t.Context(), msgs) {
					acknowledged[msgs[i].Meta.EventID.String()] = err == nil
					broken = broken || err != nil
					if outbox.IsPermanent(err) {
						t.Fatalf("the kill killed a message: %v", err)
					}
				}
				if broken {
					break
				}
			}
			<-killed
			server.Start()

			found := map[string]bool{}
			for _, r := range received(t, server.Addr()) {
				found[r.Message.Meta.EventID.String()] = true
			}
			lost, total := 0, 0
			for id, acked := range acknowledged {
				if acked {
					total++
				}
				if acked && !found[id] {
					lost++
				}
			}
			t.Logf("%d of %d acknowledged messages were lost", lost, total)
			if tt.all && lost > 0 || total == 0 {
				t.Error("every acknowledged message should be there")
			}
		})
	}
}

func TestAMessageThatTooFewReplicasHaveIsNotDelivered(t *testing.T) {
	primary := testenv.PrivateRedis(t, "repl-diskless-sync-delay 0")
	sink := open(t, primary.URL()+"?replicas=1&replica_timeout=300ms")

	for i, err := range sink.DispatchBatch(t.Context(), messages(3)) {
		if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry || !strings.Contains(err.Error(), "only 0 of 1 replicas") {
			t.Errorf("message %d without a replica: %v", i, err)
		}
	}

	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := testenv.PrivateRedis(t, fmt.Sprintf("replicaof %s %s", host, port))
	patient := open(t, primary.URL()+"?replicas=1&replica_timeout=10s")
	eventually(t, func() error { return patient.Dispatch(t.Context(), message()) })
	msgs := messages(50)
	delivered(t, patient.DispatchBatch(t.Context(), msgs))

	found := map[string]bool{}
	for _, r := range received(t, replica.Addr()) {
		found[r.Message.Meta.EventID.String()] = true
	}
	for i := range msgs {
		if !found[msgs[i].Meta.EventID.String()] {
			t.Errorf("message %d is not on the replica", i)
		}
	}
}

func TestAReplicaIsUnavailable(t *testing.T) {
	primary := testenv.PrivateRedis(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := testenv.PrivateRedis(t, fmt.Sprintf("replicaof %s %s", host, port))
	sink := open(t, replica.URL())

	unavailable(t, sink, "READONLY")
}

func TestAFullRedisIsUnavailable(t *testing.T) {
	server := testenv.PrivateRedis(t, "maxmemory 1", "maxmemory-policy noeviction")
	unavailable(t, open(t, server.URL()), "OOM")
}

func TestAWrongPasswordIsUnavailableAndNotShown(t *testing.T) {
	server := testenv.PrivateRedis(t)
	if err := client(t, server.Addr()).ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	addr := server.Addr()

	unavailable(t, open(t, "redis://"+addr), "NOAUTH")
	unavailable(t, open(t, "redis://:canary@"+addr), "WRONGPASS")
	if err := open(t, "redis://:secret@"+addr).Dispatch(t.Context(), message()); err != nil {
		t.Error(err)
	}
}

// unavailable checks both ways to ask.
func unavailable(t *testing.T, sink *redissink.Sink, text string) {
	t.Helper()
	for what, err := range map[string]error{"dispatch": sink.Dispatch(t.Context(), message()), "ping": sink.Ping(t.Context())} {
		if !outbox.IsUnavailable(err) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want unavailable for %s", what, err, text)
		}
	}
}

func TestAKeyThatIsNoStreamIsOneTopicsTroubleOnly(t *testing.T) {
	db := testenv.Redis(t)
	sink := open(t, db.URL())
	if err := shared(t, db).Set(t.Context(), "taken", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	bad, good := message(), message()
	bad.Meta.Topic = "taken"

	errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{bad, good})

	if verdict, _ := outbox.Classify(errs[0]); verdict != outbox.VerdictRetry || !strings.Contains(errs[0].Error(), "WRONGTYPE") {
		t.Errorf("got %v, want a retry", errs[0])
	}
	if errs[1] != nil {
		t.Errorf("its neighbour failed: %v", errs[1])
	}
}

// Redis closes the connection on a bulk that it does not take. The messages before it
// are delivered, it is dead, and those behind it are tried again.
func TestAPayloadThatTheServerDoesNotTakeIsPermanent(t *testing.T) {
	server := testenv.PrivateRedis(t, "proto-max-bulk-len 1mb")
	sink := open(t, server.URL())
	msgs := messages(3)
	msgs[1].Payload = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)

	errs := sink.DispatchBatch(t.Context(), msgs)

	// The server may reset the connection before its last words are read.
	for i, err := range errs {
		if i != 1 && outbox.IsPermanent(err) {
			t.Errorf("message %d died of its neighbour: %v", i, err)
		}
	}
	if errs[1] == nil {
		t.Error("it was reported as delivered")
	}
	eventually(t, func() error { return sink.Dispatch(t.Context(), msgs[2]) })
}

// More than the kernel takes for a server that does not read.
func TestABatchThatDoesNotFitTheSocketKeepsItsDeadline(t *testing.T) {
	server := testenv.PrivateRedis(t)
	sink := open(t, server.URL())
	if err := sink.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	msgs := messages(300)
	for i := range msgs {
		msgs[i].Payload = []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	}
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()

	errs := sink.DispatchBatch(ctx, msgs)

	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	for i, err := range errs {
		if err == nil || outbox.IsPermanent(err) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestPingLeavesNothingBehind(t *testing.T) {
	db := testenv.Redis(t)
	sink := open(t, db.URL())

	if err := sink.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}

	if n, err := shared(t, db).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestASinkOnTheCallersClientLeavesItOpen(t *testing.T) {
	db := testenv.Redis(t)
	c := shared(t, db)
	sink, err := redissink.New(c, redissink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Dispatch(t.Context(), message()); err != nil {
		t.Fatal(err)
	}

	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

// A cluster of one node that has all slots.
func TestAClusterTakesTopicsOfEverySlot(t *testing.T) {
	server := testenv.PrivateRedis(t, "cluster-enabled yes")
	if err := client(t, server.Addr()).ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	sink := open(t, "redis://"+server.Addr()+"?cluster=true")
	msgs := messages(50)
	for i := range msgs {
		msgs[i].Meta.Topic = fmt.Sprintf("topic.number.n%d.v1", i)
	}

	eventually(t, func() error { return errors.Join(sink.DispatchBatch(t.Context(), msgs)...) })

	if got := received(t, server.Addr()); len(got) < len(msgs) {
		t.Errorf("%d messages arrived, want %d", len(got), len(msgs))
	}
	plain := open(t, server.URL())
	if err := plain.Dispatch(t.Context(), message()); err != nil {
		t.Errorf("a plain client on a cluster of one node: %v", err)
	}
}

func TestAClusterWithoutAllSlotsIsUnavailable(t *testing.T) {
	server := testenv.PrivateRedis(t, "cluster-enabled yes")
	unavailable(t, open(t, server.URL()), "CLUSTERDOWN")
}

func TestConsumersParseWhatASinkAdded(t *testing.T) {
	db := testenv.Redis(t)
	sink := open(t, db.URL())
	sent := message()
	sent.Meta.Headers = map[string]string{"ce_id": "7", "x-source": " padded "}
	sent.Meta.CreatedAt = time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC)
	sent.Meta.Key = "ключ 7"
	if err := sink.Dispatch(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	c := shared(t, db)
	if err := c.XGroupCreate(t.Context(), topic, "group", "0").Err(); err != nil {
		t.Fatal(err)
	}
	read, err := c.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "group", Consumer: "c", Streams: []string{topic, ">"}}).Result()
	if err != nil {
		t.Fatal(err)
	}

	got, err := redissink.Parse(read[0].Messages[0])
	if err != nil {
		t.Fatal(err)
	}
	if got.Meta.EventID != sent.Meta.EventID || got.Meta.Key != sent.Meta.Key || !got.Meta.CreatedAt.Equal(sent.Meta.CreatedAt) ||
		string(got.Payload) != string(sent.Payload) || got.Meta.Topic != sent.Meta.Topic {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if len(got.Meta.Headers) != 2 || got.Meta.Headers["x-source"] != " padded " {
		t.Errorf("headers %q", got.Meta.Headers)
	}
}

func TestAnEntryOfSomebodyElseIsAnError(t *testing.T) {
	for _, values := range []map[string]any{nil, {"payload": "{}"}, {"n": 1}} {
		if _, err := redissink.Parse(redis.XMessage{Values: values}); !errors.Is(err, outbox.ErrInvalidMessage) {
			t.Errorf("%v: got %v", values, err)
		}
	}
}

func TestAHeaderCannotReplaceThePayload(t *testing.T) {
	db := testenv.Redis(t)
	sink := open(t, db.URL())
	msg := message()
	msg.Meta.Headers = map[string]string{"payload": "forged"}

	if err := sink.Dispatch(t.Context(), msg); !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidHeader) {
		t.Errorf("got %v", err)
	}
}

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	_, err := redissink.New(nil, redissink.Config{MaxLen: -1, Replicas: -1, MaxPayload: -1, ReplicaTimeout: -1})
	says(t, err, "client", "max_len", "replicas", "max_payload", "replica_timeout")

	careless := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer careless.Close()
	_, err = redissink.New(careless, redissink.Config{})
	says(t, err, "ContextTimeoutEnabled")

	impatient := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, ReadTimeout: time.Second})
	defer impatient.Close()
	_, err = redissink.New(impatient, redissink.Config{Replicas: 1})
	says(t, err, "replica_timeout")

	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true})
	defer cluster.Close()
	_, err = redissink.New(cluster, redissink.Config{Replicas: 1})
	says(t, err, "cluster")
}

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !errors.Is(err, outbox.ErrInvalidConfig) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func delivered(t *testing.T, errs []error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func length(t *testing.T, db *testenv.RedisDB) int64 {
	t.Helper()
	n, err := shared(t, db).XLen(t.Context(), topic).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shared is a client of a database on the shared server.
func shared(t testing.TB, db *testenv.RedisDB) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	with := options(o.Addr)
	with.DB = o.DB
	c := redis.NewClient(with)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually tries until it works, for what nobody announces.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
