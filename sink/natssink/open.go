package natssink

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/go-outbox/outbox"
)

const (
	pingInterval   = 10 * time.Second // a connection that is silent for two of them is dead
	maxPingsOut    = 2
	reconnectWait  = 500 * time.Millisecond
	flusherTimeout = 2 * time.Second // what a full socket may add to a deadline
)

// Open makes a sink with a connection of its own, from a URL:
//
//	nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]...][?PARAMETER=VALUE&...]
//
// tls:// instead of nats:// demands TLS. The parameters are creds and nkey (files with
// credentials), tls_ca, tls_cert and tls_key (PEM files), domain, timeout and name.
//
// A server that is down is no error: the sink connects when it is up, and reports
// itself as unavailable until then. Errors never show the URL.
func Open(rawURL string) (*Sink, error) {
	a, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(strings.Join(a.servers, ","), a.options...)
	if err != nil {
		return nil, badURL("connection refused by the client: %v", err)
	}
	sink, err := New(conn, a.cfg)
	if err != nil {
		conn.Close()
		return nil, err
	}
	sink.owned = true
	return sink, nil
}

// An address is a URL taken apart.
type address struct {
	servers []string
	options []nats.Option
	cfg     Config

	name, cert, key string
}

func badURL(format string, args ...any) error {
	return outbox.ErrInvalidConfig.With("url", fmt.Sprintf(format, args...))
}

// parseURL does without net/url for the hosts: it refuses several.
func parseURL(raw string) (*address, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	if scheme != "nats" && scheme != "tls" {
		return nil, badURL("want nats:// or tls://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, path, _ := strings.Cut(rest, "/")
	if path != "" || strings.Contains(raw, "#") {
		return nil, badURL("must not hold a path or fragment: subjects are topics")
	}
	a := &address{name: "outbox"}
	user, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, hosts = rest[:at+1], rest[at+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server := scheme + "://" + user + host
		if u, err := url.Parse(server); err != nil || u.Hostname() == "" {
			return nil, badURL("cannot be read: want nats://HOST:PORT,HOST:PORT")
		}
		a.servers = append(a.servers, server)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badURL("its parameters cannot be read")
	}
	if err := a.apply(values); err != nil {
		return nil, err
	}
	a.connectionOptions()
	return a, nil
}

// parameters set one thing each.
var parameters = map[string]func(a *address, value string) error{
	"creds": func(a *address, file string) error {
		a.options = append(a.options, nats.UserCredentials(file))
		return readable(file)
	},
	"nkey": func(a *address, file string) error {
		option, err := nats.NkeyOptionFromSeed(file)
		a.options = append(a.options, option)
		return err
	},
	"tls_ca": func(a *address, file string) error {
		a.options = append(a.options, nats.RootCAs(file))
		return readable(file)
	},
	"tls_cert": func(a *address, file string) error { a.cert = file; return readable(file) },
	"tls_key":  func(a *address, file string) error { a.key = file; return readable(file) },
	"domain":   func(a *address, domain string) error { a.cfg.Domain = domain; return nil },
	"name":     func(a *address, name string) error { a.name = name; return nil },
	"timeout": func(a *address, text string) (err error) {
		a.cfg.Timeout, err = time.ParseDuration(text)
		if err == nil && a.cfg.Timeout <= 0 {
			return errors.New("must be positive")
		}
		return err
	},
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
	if (a.cert == "") != (a.key == "") {
		errs = append(errs, badURL("tls_cert and tls_key belong together"))
	}
	return errors.Join(errs...)
}

func (a *address) connectionOptions() {
	a.options = append(a.options,
		nats.Name(a.name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), // what cannot be sent now is the relay's to keep
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.FlusherTimeout(flusherTimeout),
		nats.ReconnectOnFlusherError(),
		// The client's own handler prints; what matters is in a dispatch's error.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if a.cert != "" {
		a.options = append(a.options, nats.ClientCert(a.cert, a.key))
	}
}

func readable(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}
