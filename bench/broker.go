package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/kafkasink"
	"github.com/go-outbox/outbox/sink/natssink"
	"github.com/go-outbox/outbox/sink/redissink"
)

func sinkCount(z sizes) int { return z.sink }

// backend is a server that the project's tests start in the same way. There is one of
// every name that is asked for here.
func backend(name string) testenv.Backend {
	for _, b := range testenv.Backends() {
		if b.Name == name {
			return b
		}
	}
	panic("no backend " + name)
}

// startBackend returns the address of the server and what stops it. A server that the
// environment names is not started.
func startBackend(name string) (address string, stop func() error, err error) {
	shared, err := backend(name).Start()
	switch {
	case err != nil:
		return "", nil, err
	case shared == nil:
		return os.Getenv("OUTBOX_TEST_" + strings.ToUpper(name)), func() error { return nil }, nil
	}
	return shared.Address, shared.Stop, nil
}

// Kafka.

const kafkaPartitions = 4

func kafkaDestination() destination {
	return destination{
		workload: "sink_kafka",
		settings: fmt.Sprintf("kafkasink, Kafka 4.1 (KRaft, one node, default durability), %d partitions, acks=all, idempotent, kafkasink.Options", kafkaPartitions),
		count:    sinkCount, missing: backend("kafka").Installed, open: openKafka,
	}
}

type kafkaEndpoint struct {
	address string
	stop    func() error
	admin   *kgo.Client
	before  int64 // messages of earlier cells
}

func openKafka(ctx context.Context) (endpoint, error) {
	address, stop, err := startBackend("kafka")
	if err != nil {
		return nil, err
	}
	admin, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	k := &kafkaEndpoint{address: address, stop: stop, admin: admin}
	answer, err := kadm.NewClient(admin).CreateTopic(ctx, kafkaPartitions, 1, nil, topic)
	if err = errors.Join(err, answer.Err); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *kafkaEndpoint) end(ctx context.Context) (sum int64, err error) {
	offsets, err := kadm.NewClient(k.admin).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	offsets.Each(func(o kadm.ListedOffset) { sum, err = sum+o.Offset, errors.Join(err, o.Err) })
	return sum, err
}

func (k *kafkaEndpoint) reset(ctx context.Context) (err error) {
	k.before, err = k.end(ctx)
	return err
}

func (k *kafkaEndpoint) arrived(ctx context.Context) (int, error) {
	end, err := k.end(ctx)
	return int(end - k.before), err
}

// connect makes a client that has asked for its producer id and knows the topic.
func (k *kafkaEndpoint) connect(ctx context.Context) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(kafkasink.Options(), kgo.SeedBrokers(k.address))...)
	if err != nil {
		return nil, err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr(); err != nil {
		client.Close()
		return nil, err
	}
	k.before++
	return client, nil
}

func (k *kafkaEndpoint) sink(ctx context.Context) (outbox.Dispatcher, func() error, error) {
	client, err := k.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := kafkasink.New(client, kafkasink.Config{})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return s, func() error { err := s.Close(); client.Close(); return err }, nil
}

func (k *kafkaEndpoint) client(ctx context.Context, msgs []parcel) (func(ctx context.Context, i, j int) error, func(), error) {
	client, err := k.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*kgo.Record, len(msgs))
	for i, m := range msgs {
		records[i] = &kgo.Record{Topic: m.Meta.Topic, Key: []byte(m.Meta.OrderingKey()), Value: m.Payload}
		for _, h := range m.headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
	}
	send := func(ctx context.Context, i, j int) error { return client.ProduceSync(ctx, records[i:j]...).FirstErr() }
	return send, client.Close, nil
}

func (k *kafkaEndpoint) close() error {
	k.admin.Close()
	return k.stop()
}

// NATS.

func natsDestination() destination {
	return destination{
		workload: "sink_nats",
		settings: "natssink, one NATS server, JetStream on files, deduplication by Nats-Msg-Id",
		count:    sinkCount, missing: backend("nats").Installed, open: openNATS,
	}
}

type natsEndpoint struct {
	stop func() error
	conn *nats.Conn
	js   jetstream.JetStream
}

func openNATS(context.Context) (endpoint, error) {
	address, stop, err := startBackend("nats")
	if err != nil {
		return nil, err
	}
	n := &natsEndpoint{stop: stop}
	if n.conn, err = nats.Connect(address); err != nil {
		return nil, errors.Join(err, stop())
	}
	if n.js, err = jetstream.New(n.conn, jetstream.WithPublishAsyncMaxPending(2*manyCount)); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

const natsStream = "outbox-bench"

// reset makes the stream anew, because it would know all ids.
func (n *natsEndpoint) reset(ctx context.Context) error {
	if err := n.js.DeleteStream(ctx, natsStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	_, err := n.js.CreateStream(ctx, jetstream.StreamConfig{Name: natsStream, Subjects: []string{topic}})
	return err
}

func (n *natsEndpoint) arrived(ctx context.Context) (int, error) {
	stream, err := n.js.Stream(ctx, natsStream)
	if err != nil {
		return 0, err
	}
	return int(stream.CachedInfo().State.Msgs), nil
}

func (n *natsEndpoint) sink(context.Context) (outbox.Dispatcher, func() error, error) {
	s, err := natssink.New(n.conn, natssink.Config{})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func (n *natsEndpoint) client(_ context.Context, msgs []parcel) (func(ctx context.Context, i, j int) error, func(), error) {
	all := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		all[i] = &nats.Msg{Subject: m.Meta.Topic, Data: m.Payload, Header: nats.Header{jetstream.MsgIDHeader: {m.Meta.DedupID()}}}
		for _, h := range m.headers {
			all[i].Header[h.Name] = []string{h.Value}
		}
	}
	send := func(ctx context.Context, i, j int) error {
		futures := make([]jetstream.PubAckFuture, 0, j-i)
		for _, msg := range all[i:j] {
			future, err := n.js.PublishMsgAsync(msg)
			if err != nil {
				return err
			}
			futures = append(futures, future)
		}
		for _, future := range futures {
			select {
			case <-future.Ok():
			case err := <-future.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	return send, func() {}, nil
}

func (n *natsEndpoint) close() error {
	n.conn.Close()
	return n.stop()
}

// Redis.

func redisDestination() destination {
	return destination{
		workload: "sink_redis",
		settings: "redissink, one Redis with appendonly yes and appendfsync everysec, XADD in pipelines, nothing trimmed",
		count:    sinkCount,
		missing:  func() error { _, err := exec.LookPath("redis-server"); return err },
		open:     openRedis,
	}
}

type redisEndpoint struct {
	*process
	redis *redis.Client
}

func openRedis(ctx context.Context) (endpoint, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	p, err := newProcess()
	if err != nil {
		return nil, err
	}
	r := &redisEndpoint{p, redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:" + strconv.Itoa(p.port), ContextTimeoutEnabled: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	argv := []string{path, "--bind", "127.0.0.1", "--port", strconv.Itoa(p.port), "--dir", p.dir,
		"--pidfile", filepath.Join(p.dir, "pid"), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"}
	err = p.start(ctx, "KILL", argv, func(ctx context.Context) error { return r.redis.Ping(ctx).Err() })
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *redisEndpoint) reset(ctx context.Context) error { return r.redis.FlushAll(ctx).Err() }

func (r *redisEndpoint) arrived(ctx context.Context) (int, error) {
	n, err := r.redis.XLen(ctx, topic).Result()
	return int(n), err
}

func (r *redisEndpoint) sink(context.Context) (outbox.Dispatcher, func() error, error) {
	s, err := redissink.New(r.redis, redissink.Config{})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func (r *redisEndpoint) client(_ context.Context, msgs []parcel) (func(ctx context.Context, i, j int) error, func(), error) {
	all := make([]*redis.XAddArgs, len(msgs))
	for i, m := range msgs {
		values := []any{"payload", []byte(m.Payload)}
		for _, h := range m.headers {
			values = append(values, h.Name, h.Value)
		}
		all[i] = &redis.XAddArgs{Stream: m.Meta.Topic, Values: values}
	}
	send := func(ctx context.Context, i, j int) error {
		pipe := r.redis.Pipeline()
		for _, args := range all[i:j] {
			pipe.XAdd(ctx, args)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	return send, func() {}, nil
}

func (r *redisEndpoint) close() error { return errors.Join(r.redis.Close(), r.stop()) }
