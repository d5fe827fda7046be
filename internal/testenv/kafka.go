package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaVersion is the Apache Kafka that tests run: one node, KRaft, on Java 17.
const kafkaVersion = "4.1.0"

// kafkaVariable is the address of a broker whose topics tests may create and
// delete: set by `testenv run`, or by people who bring their own.
const kafkaVariable = "OUTBOX_TEST_KAFKA"

// kafkaPOM names what a node and the console consumer need. The tools want
// Kafka Connect only for commands we do not use.
const kafkaPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>outbox</groupId>
  <artifactId>test-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>` + kafkaVersion + `</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>` + kafkaVersion + `</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
`

var kafka = Backend{
	Name:     "kafka",
	packages: []string{"default-jre-headless", "maven"},
	find: func() error {
		if os.Getenv(kafkaVariable) != "" {
			return nil
		}
		return findKafka()
	},
	fetch: fetchKafka,
	start: func() (*Shared, error) {
		if os.Getenv(kafkaVariable) != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newKafkaServer()
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: kafkaVariable, Address: s.address(), process: s.process}, nil
	},
}

// A KafkaNode is a running Kafka broker. Kafka and PrivateKafka make it.
type KafkaNode struct{ address string }

// Address returns the broker's host and port.
func (k *KafkaNode) Address() string { return k.address }

// Kafka returns the broker that tests share, for topics of the test's own. A test
// that stops brokers wants PrivateKafka.
func Kafka(t testing.TB) *KafkaNode {
	t.Helper()
	kafka.need(t)
	address := os.Getenv(kafkaVariable)
	if address == "" {
		s, err := ownKafka()
		if err != nil {
			kafka.missing(t, err)
		}
		address = s.address()
	}
	return &KafkaNode{address: address}
}

// ownKafka has no matching stop: the supervisor sees this process exit.
var ownKafka = sync.OnceValues(func() (*kafkaServer, error) { return newKafkaServer() })

// Topic creates a topic for t and deletes it when t ends. Settings are
// "name=value" pairs, such as "max.message.bytes=10000".
func (k *KafkaNode) Topic(t testing.TB, partitions int32, settings ...string) string {
	t.Helper()
	configs := map[string]*string{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		configs[name] = &value
	}
	name := databaseName(t)
	err := k.administer(func(ctx context.Context, admin *kadm.Client) error {
		if _, err := admin.CreateTopic(ctx, partitions, 1, configs, name); err != nil {
			return err
		}
		return awaitLeaders(ctx, admin, name)
	})
	if err != nil {
		t.Fatalf("create topic: %v", err)
	}
	t.Cleanup(func() {
		// The broker may be the test's own and down: then the topic goes with it.
		_ = k.administer(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.DeleteTopic(ctx, name)
			return err
		})
	})
	return name
}

// awaitLeaders waits until every partition of a new topic has a leader.
func awaitLeaders(ctx context.Context, admin *kadm.Client, topic string) error {
	for {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (k *KafkaNode) administer(do func(context.Context, *kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.address), kgo.RetryTimeout(5*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return do(ctx, kadm.NewClient(client))
}

// Console reads n records of a topic with Kafka's own console consumer, which
// shares nothing with Go clients, and returns a line for each: headers, key and
// value, separated by tabs. It takes some seconds.
func (k *KafkaNode) Console(t testing.TB, topic string, n int) []string {
	t.Helper()
	jars, err := kafkaJars()
	if err == nil {
		err = findKafka()
	}
	if err != nil {
		kafka.missing(t, err)
	}
	cmd := exec.CommandContext(t.Context(), "java", append(kafkaJVM(jars), "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", k.address, "--topic", topic, "--from-beginning",
		"--max-messages", fmt.Sprint(n), "--timeout-ms", "20000",
		"--isolation-level", "read_committed", "--property", "print.headers=true", "--property", "print.key=true")...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("console consumer: %v\n%s", err, log.String())
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// A KafkaServer is a broker that one test owns and may kill and start again; its
// data and its address survive. Kill and Start are not safe for concurrent use with
// each other.
type KafkaServer struct {
	KafkaNode
	t      testing.TB
	server *kafkaServer
}

// PrivateKafka starts a broker for t and removes it when t ends. It takes some
// seconds. It always runs the programs found on this machine, even when the shared
// broker is somewhere else. Settings are "name=value" pairs for the broker.
func PrivateKafka(t testing.TB, settings ...string) *KafkaServer {
	t.Helper()
	kafka.need(t)
	if err := findKafka(); err != nil {
		kafka.missing(t, err)
	}
	s, err := newKafkaServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it stopped
	})
	return &KafkaServer{KafkaNode: KafkaNode{address: s.address()}, t: t, server: s}
}

// Kill ends the broker with SIGKILL and returns when it is gone.
func (k *KafkaServer) Kill() {
	k.t.Helper()
	if err := k.server.process.signal("KILL"); err != nil {
		k.t.Fatal(err)
	}
}

// Start starts a broker that was killed, with its data and address, and returns when
// it answers.
func (k *KafkaServer) Start() {
	k.t.Helper()
	if err := k.server.start(); err != nil {
		k.t.Fatal(err)
	}
}

// kafkaServer is a node with a data directory of its own.
type kafkaServer struct {
	dir              string
	jars             string
	port, controller int
	settings         []string
	process          *process
}

func newKafkaServer(settings ...string) (*kafkaServer, error) {
	if err := findKafka(); err != nil {
		return nil, err
	}
	dir, err := serverDir("kafka")
	if err != nil {
		return nil, err
	}
	s := &kafkaServer{dir: dir, settings: settings}
	if s.jars, err = lendJars(dir); err == nil {
		err = s.startAnywhere()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// startAnywhere chooses the ports. Losing a race for one is worth a second try.
func (s *kafkaServer) startAnywhere() error {
	var err error
	for range 3 {
		err = s.format()
		if err != nil {
			return err
		}
		if err = s.start(); err == nil {
			return nil
		}
	}
	return err
}

// format writes the configuration and the empty data directory of a new node.
func (s *kafkaServer) format() (err error) {
	if s.port, err = freePort(); err != nil {
		return err
	}
	if s.controller, err = freePort(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	text := strings.Join(append(s.defaults(), s.settings...), "\n") + "\n"
	if err := os.WriteFile(s.config(), []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("java", append(kafkaJVM(s.jars), "kafka.tools.StorageTool", "format",
		"--cluster-id", "b3V0Ym94LXRlc3QtMDAwMQ", "--config", s.config())...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = sysProcAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format kafka: %w\n%s", err, out)
	}
	return nil
}

func (s *kafkaServer) start() error {
	// KILL, because what it leaves is removed anyway and an orderly stop takes
	// seconds.
	process, err := spawn(s.dir, "KILL", append(append([]string{"java"}, kafkaJVM(s.jars)...), "kafka.Kafka", s.config())...)
	if err != nil {
		return err
	}
	s.process = process
	if err := process.awaitReady(s.ready); err != nil {
		return errors.Join(err, process.signal("KILL"))
	}
	return nil
}

// ready says whether the broker has joined its cluster: it answers before that.
func (s *kafkaServer) ready() error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.address()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err == nil && len(brokers) == 0 {
		err = errors.New("no broker is registered")
	}
	return err
}

// defaults are the settings of every node: small, and all it has on one disk.
func (s *kafkaServer) defaults() []string {
	return []string{
		"process.roles=broker,controller",
		"node.id=1",
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", s.controller),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", s.address(), s.controller),
		"advertised.listeners=PLAINTEXT://" + s.address(),
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + s.data(),
		"auto.create.topics.enable=false",
		// A killed broker may come back when its session has ended.
		"broker.session.timeout.ms=1000",
		"broker.heartbeat.interval.ms=200",
		"num.network.threads=2",
		"num.io.threads=2",
		"log.cleaner.dedupe.buffer.size=4194304",
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}
}

func (s *kafkaServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *kafkaServer) config() string  { return filepath.Join(s.dir, "server.properties") }
func (s *kafkaServer) data() string    { return filepath.Join(s.dir, "data") }

// kafkaJVM are the arguments of java before the class: a small heap, and as little
// compilation as a short life is worth.
func kafkaJVM(jars string) []string {
	return []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(jars, "*"),
	}
}

// findKafka returns nil when a node could be started here.
func findKafka() error {
	if _, err := exec.LookPath("java"); err != nil {
		return err
	}
	jars, err := kafkaJars()
	if err != nil {
		return err
	}
	if _, err := os.Stat(jars); err != nil {
		return fmt.Errorf("Kafka %s is not in the cache; `go run ./internal/testenv/cmd/testenv install` fetches it: %w", kafkaVersion, err)
	}
	return nil
}

// kafkaJars is where this user keeps Kafka between runs.
func kafkaJars() (string, error) {
	return cached("kafka-" + kafkaVersion)
}

// fetchKafka downloads Kafka with Maven. The jars appear whole or not at all.
func fetchKafka(w io.Writer) error {
	jars, err := kafkaJars()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(jars), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(jars), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	pom, target := filepath.Join(work, "pom.xml"), filepath.Join(work, "jars")
	if err := os.WriteFile(pom, []byte(kafkaPOM), 0o644); err != nil {
		return err
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return err
	}
	fmt.Fprintf(w, "fetching Kafka %s\n", kafkaVersion)
	out, err := exec.Command("mvn", "-q", "-B", "-f", pom,
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fetch Kafka %s: %w\n%s", kafkaVersion, err, out)
	}
	if err := os.Rename(target, jars); err != nil && findKafka() != nil { // another may have been faster
		return err
	}
	return nil
}

// lendJars returns where the server's user can read the jars. Root's cache is in
// root's home, which nobody else may enter.
func lendJars(dir string) (string, error) {
	jars, err := kafkaJars()
	if err != nil || serverUser() == nil {
		return jars, err
	}
	lent := filepath.Join(dir, "jars")
	if err := errors.Join(os.Mkdir(lent, 0o755), handOver(lent)); err != nil { // who removes it must own it
		return "", err
	}
	names, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if err := linkOrCopy(name, filepath.Join(lent, filepath.Base(name))); err != nil {
			return "", err
		}
	}
	return lent, nil
}

func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
