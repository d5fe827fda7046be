package redissink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/go-outbox/outbox"
)

const (
	defaultTimeout = 15 * time.Second
	dialTimeout    = 5 * time.Second
)

// Open makes a sink with a client of its own, from a URL:
//
//	redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE][?PARAMETER=VALUE&...]
//
// rediss:// instead of redis:// uses TLS. Several hosts, or cluster=true, are a cluster;
// with master=NAME they are the sentinels of that master. The other parameters are
// max_len, max_payload, replicas, replica_timeout, timeout, pool_size, tls_ca, tls_cert
// and tls_key (PEM files).
//
// A server that is down is no error: the sink connects when it is needed. Errors never
// show the URL.
func Open(rawURL string) (*Sink, error) {
	a, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client := redis.NewUniversalClient(&a.options)
	sink, err := New(client, a.cfg)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	sink.owned = true
	return sink, nil
}

// An address is a URL taken apart.
type address struct {
	options redis.UniversalOptions
	cfg     Config

	ca, cert, key string
}

func badURL(format string, args ...any) error {
	return outbox.ErrInvalidConfig.With("url", fmt.Sprintf(format, args...))
}

// parseURL does without net/url for the hosts: it refuses several.
func parseURL(raw string) (*address, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	if scheme != "redis" && scheme != "rediss" {
		return nil, badURL("want redis:// or rediss://")
	}
	if strings.Contains(raw, "#") {
		return nil, badURL("must not hold a fragment")
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, path, _ := strings.Cut(rest, "/")
	a := &address{options: defaults()}
	if err := a.authority(rest); err != nil {
		return nil, err
	}
	if path != "" {
		database, err := strconv.ParseUint(path, 10, 16)
		if err != nil {
			return nil, badURL("the path is the number of a database")
		}
		a.options.DB = int(database)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badURL("its parameters cannot be read")
	}
	if err := a.apply(values); err != nil {
		return nil, err
	}
	if cluster := a.options.MasterName == "" && (len(a.options.Addrs) > 1 || a.options.IsClusterMode); cluster && a.options.DB != 0 {
		return nil, badURL("a cluster has database 0 only")
	}
	if err := a.secure(scheme == "rediss"); err != nil {
		return nil, err
	}
	return a, nil
}

func defaults() redis.UniversalOptions {
	return redis.UniversalOptions{
		ClientName:            "outbox",
		DialTimeout:           dialTimeout,
		ReadTimeout:           defaultTimeout,
		WriteTimeout:          defaultTimeout,
		ContextTimeoutEnabled: true,
		// The relay retries, and knows what a message has been through.
		MaxRetries:    -1,
		DialerRetries: 1,
		// Its handshake is noise on servers that do not know it.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// authority reads USER:PASSWORD@HOST:PORT,HOST:PORT.
func (a *address) authority(text string) error {
	user, hosts := "", text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		user, hosts = text[:at+1], text[at+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("redis://" + user + host)
		if err != nil || u.Hostname() == "" {
			return badURL("cannot be read: want redis://HOST:PORT/DATABASE")
		}
		if u.Port() == "" {
			u.Host += ":6379"
		}
		a.options.Addrs = append(a.options.Addrs, u.Host)
		a.options.Username = u.User.Username()
		a.options.Password, _ = u.User.Password()
	}
	return nil
}

// parameters set one thing each.
var parameters = map[string]func(a *address, value string) error{
	"cluster": func(a *address, text string) (err error) {
		a.options.IsClusterMode, err = strconv.ParseBool(text)
		return err
	},
	"master": func(a *address, name string) error { a.options.MasterName = name; return nil },
	"max_len": func(a *address, text string) (err error) {
		a.cfg.MaxLen, err = strconv.ParseInt(text, 10, 64)
		return err
	},
	"max_payload": func(a *address, text string) (err error) { a.cfg.MaxPayload, err = strconv.Atoi(text); return err },
	"replicas":    func(a *address, text string) (err error) { a.cfg.Replicas, err = strconv.Atoi(text); return err },
	"replica_timeout": func(a *address, text string) (err error) {
		a.cfg.ReplicaTimeout, err = positive(text)
		return err
	},
	"timeout": func(a *address, text string) (err error) {
		a.options.ReadTimeout, err = positive(text)
		a.options.WriteTimeout = a.options.ReadTimeout
		return err
	},
	"pool_size": func(a *address, text string) (err error) { a.options.PoolSize, err = strconv.Atoi(text); return err },
	"tls_ca":    func(a *address, file string) error { a.ca = file; return nil },
	"tls_cert":  func(a *address, file string) error { a.cert = file; return nil },
	"tls_key":   func(a *address, file string) error { a.key = file; return nil },
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("must be positive")
	}
	return d, err
}

func (a *address) apply(values url.Values) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, known := parameters[name]
		switch {
		case !known:
			errs = append(errs, badURL("unknown parameter %q: there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")))
		case len(values[name]) > 1:
			errs = append(errs, badURL("parameter %q is there twice", name))
		default:
			if err := set(a, values[name][0]); err != nil {
				errs = append(errs, badURL("parameter %q: %v", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// secure makes the TLS configuration.
func (a *address) secure(wanted bool) error {
	if !wanted {
		if a.ca+a.cert+a.key != "" {
			return badURL("tls_ca, tls_cert and tls_key need rediss://")
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return badURL("tls_ca: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return badURL("tls_ca: %s holds no certificate", a.ca)
		}
	}
	if a.cert != "" || a.key != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return badURL("tls_cert and tls_key: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	a.options.Dialer = dialer(config)
	return nil
}

// dialer makes a handshake that gets no answer, as at a port without TLS, a failure to
// connect. The client's own would be taken for a server that is slow to answer.
func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: config})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return conn, nil
	}
}
