package kafkasink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/go-outbox/outbox"
)

const defaultPort = "9092"

// Options are the options of the client that Open makes, without those of the URL.
// Give yours after them; a later one wins.
func Options() []kgo.Opt {
	return []kgo.Opt{
		kgo.ClientID("outbox"),
		// Records gather while requests are under way, and a batch comes all at
		// once: waiting for more would only add to the latency.
		kgo.ProducerLinger(0),
		// What cannot be sent for so long is given back to the relay, whose
		// dispatch lasts 30 s by default. What was sent is waited for.
		kgo.RecordDeliveryTimeout(10 * time.Second),
		kgo.DialTimeout(5 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		// The relay has a backoff of its own; the client's is for elections.
		kgo.RetryBackoffFn(backoff),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.UnknownTopicRetries(2),
		// A connection that ends early is more often a restart than a wrong password.
		kgo.AlwaysRetryEOF(),
		kgo.DisableClientMetrics(),
	}
}

// backoff doubles from 50 ms to one second.
func backoff(fails int) time.Duration {
	return min(50*time.Millisecond<<min(max(fails-1, 0), 5), time.Second)
}

// Open makes a sink and its client from a URL:
//
//	kafka://[user:password@]host[:port][,host[:port]…][?option=value&…]
//
// The options are tls (true or false), ca_file (a PEM file instead of the system's
// authorities), cert_file and key_file (PEM files, for brokers that want to know who
// connects), sasl (plain, scram-sha-256 or scram-sha-512), client_id, compression (none,
// gzip, snappy, lz4 or zstd), linger, delivery_timeout, max_message_bytes and probe_after.
// It does no network I/O. Its errors never show the user or the password.
func Open(rawURL string) (*Sink, error) {
	q, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(Options(), q.options...)...)
	if err != nil {
		return nil, outbox.ErrInvalidConfig.With("url", err.Error())
	}
	s, err := New(client, q.cfg)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// parseURL does without url.Parse, which knows URLs of one host only.
func parseURL(raw string) (*query, error) {
	rest, ok := strings.CutPrefix(raw, "kafka://")
	if !ok {
		return nil, outbox.ErrInvalidConfig.With("url", "does not begin with kafka://")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	login, hosts, ok := cutLast(rest, "@")
	if !ok {
		login, hosts = "", rest
	}
	q := &query{}
	q.brokers(strings.TrimSuffix(hosts, "/"))
	values, err := url.ParseQuery(rawQuery)
	if err != nil || strings.Contains(rawQuery, "#") {
		q.bad("the options cannot be read")
	}
	for name, all := range values {
		if len(all) > 1 {
			q.bad("%s is given %d times", name, len(all))
		}
		q.set(name, all[0])
	}
	q.secure(login)
	return q, errors.Join(q.errs...)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// A query collects what a URL asks for.
type query struct {
	options []kgo.Opt
	cfg     Config
	errs    []error

	tls                       bool
	caFile, certFile, keyFile string
	sasl                      string
}

func (q *query) add(o kgo.Opt) { q.options = append(q.options, o) }

func (q *query) bad(format string, args ...any) {
	q.errs = append(q.errs, outbox.ErrInvalidConfig.With("url", fmt.Sprintf(format, args...)))
}

func (q *query) brokers(list string) {
	var seeds []string
	for _, host := range strings.Split(list, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		name, port, err := net.SplitHostPort(host)
		if n, _ := strconv.ParseUint(port, 10, 16); err != nil || name == "" || n == 0 || strings.ContainsAny(name, "/ #") {
			q.bad("the brokers cannot be read: want kafka://HOST:PORT,HOST:PORT")
			return
		}
		seeds = append(seeds, host)
	}
	q.add(kgo.SeedBrokers(seeds...))
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (q *query) set(name, value string) {
	switch name {
	case "tls":
		on, err := strconv.ParseBool(value)
		if err != nil {
			q.bad("tls is %q, want true or false", value)
		}
		q.tls = on
	case "ca_file":
		q.caFile = value
	case "cert_file":
		q.certFile = value
	case "key_file":
		q.keyFile = value
	case "sasl":
		q.sasl = value
	case "client_id":
		q.add(kgo.ClientID(value))
	case "compression":
		codec, ok := codecs[value]
		if !ok {
			q.bad("compression is %q, want none, gzip, snappy, lz4 or zstd", value)
		}
		q.add(kgo.ProducerBatchCompression(codec, kgo.NoCompression()))
	case "linger":
		q.add(kgo.ProducerLinger(q.duration(name, value, 0)))
	case "delivery_timeout":
		q.add(kgo.RecordDeliveryTimeout(q.duration(name, value, time.Second)))
	case "probe_after":
		q.cfg.ProbeAfter = q.duration(name, value, time.Millisecond)
	case "max_message_bytes":
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1<<10 || n > 1<<30 {
			q.bad("max_message_bytes is %q, want %d to %d", value, 1<<10, 1<<30)
		}
		q.add(kgo.ProducerBatchMaxBytes(int32(n)))
		q.add(kgo.BrokerMaxWriteBytes(int32(max(n, 100<<20))))
	default:
		q.bad("unknown option %q: there are %s", name, optionNames)
	}
}

const optionNames = "ca_file, cert_file, client_id, compression, delivery_timeout, key_file, linger, max_message_bytes, probe_after, sasl, tls"

func (q *query) duration(name, value string, least time.Duration) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < least {
		q.bad("%s is %q, want a duration of at least %s", name, value, least)
	}
	return d
}

// secure adds encryption and login.
func (q *query) secure(login string) {
	if q.caFile+q.certFile+q.keyFile != "" && !q.tls {
		q.bad("ca_file, cert_file and key_file need tls=true")
	}
	if q.tls {
		q.add(kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: q.authorities(), Certificates: q.certificates()}))
	}
	name, password, _ := strings.Cut(login, ":")
	user, err1 := url.PathUnescape(name)
	pass, err2 := url.PathUnescape(password)
	switch {
	case err1 != nil || err2 != nil:
		q.bad("user and password must be percent-encoded")
	case (user == "" || pass == "") && (login != "" || q.sasl != ""):
		q.bad("a login needs sasl, a user and a password")
	case login == "":
	case q.sasl == "plain" && !q.tls:
		q.bad("sasl=plain would send the password in the clear: add tls=true, or use scram-sha-256")
	case q.sasl == "plain":
		q.add(kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()))
	case q.sasl == "scram-sha-256":
		q.add(kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()))
	case q.sasl == "scram-sha-512":
		q.add(kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()))
	default:
		q.bad("sasl is %q, want plain, scram-sha-256 or scram-sha-512", q.sasl)
	}
}

// authorities are those of ca_file, or nil for the system's.
func (q *query) authorities() *x509.CertPool {
	if q.caFile == "" {
		return nil
	}
	text, err := os.ReadFile(q.caFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		q.bad("ca_file %q holds no certificates", q.caFile)
	}
	return pool
}

// certificates are what the client shows, if anything.
func (q *query) certificates() []tls.Certificate {
	if q.certFile+q.keyFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(q.certFile, q.keyFile)
	if err != nil {
		q.bad("cert_file and key_file: %v", err)
	}
	return []tls.Certificate{pair}
}
