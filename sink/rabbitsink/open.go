package rabbitsink

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

// Open makes a sink from a URL:
//
//	amqp://USER:PASSWORD@HOST[:PORT]/VHOST?exchange=NAME[&PARAMETER=VALUE...]
//
// amqps:// demands TLS. exchange is required; an empty one is the default exchange. A
// path of / alone, or none, is the vhost /; write others percent-encoded. The other
// parameters are timeout (a duration), and the client library's: heartbeat (seconds),
// cacertfile, certfile and keyfile (PEM files), server_name_indication and
// auth_mechanism.
//
// It does no I/O but to look for the files. Errors never show the URL.
func Open(rawURL string) (*Sink, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, badURL("cannot be read: want amqp://USER:PASSWORD@HOST:PORT/VHOST?exchange=NAME")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badURL("its parameters cannot be read")
	}
	cfg := Config{Exchange: values.Get("exchange")}
	var errs []error
	if !values.Has("exchange") {
		errs = append(errs, badURL("parameter \"exchange\" is required"))
	}
	if values.Has("timeout") {
		cfg.Timeout, err = time.ParseDuration(values.Get("timeout"))
		if err != nil || cfg.Timeout <= 0 {
			errs = append(errs, badURL("parameter \"timeout\" is no duration: write 15s"))
		}
	}
	for name, given := range values {
		if len(given) > 1 && name != "auth_mechanism" {
			errs = append(errs, badURL("parameter %q is there twice", name))
		}
	}
	values.Del("exchange")
	values.Del("timeout")
	u.RawQuery = values.Encode()
	cfg.URL = u.String()
	sink, err := New(cfg)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return sink, nil
}

func badURL(format string, args ...any) error {
	return outbox.ErrInvalidConfig.With("url", fmt.Sprintf(format, args...))
}

func (c *Config) validate() error {
	errs := []error{c.validateURL()}
	bad := func(field, text string) { errs = append(errs, outbox.ErrInvalidConfig.With(field, text)) }
	if len(c.Exchange) > maxShort || strings.ContainsFunc(c.Exchange, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		bad("exchange", "is no name: want at most 255 characters of printable ASCII")
	}
	if c.Timeout < 0 {
		bad("timeout", "is negative")
	}
	if c.Client.Recovery != nil {
		bad("client", "must not recover connections: the sink does, and knows what was lost")
	}
	return errors.Join(errs...)
}

// parameters are those of the client library's that make sense here, and whether they
// name a file.
var parameters = map[string]bool{
	"heartbeat": false, "server_name_indication": false, "auth_mechanism": false,
	"cacertfile": true, "certfile": true, "keyfile": true,
}

// validateURL never shows more of the URL than its parameters: the rest holds a
// password.
func (c *Config) validateURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return badURL("is required")
	case err != nil || u.Opaque != "":
		return badURL("cannot be read: want amqp://USER:PASSWORD@HOST:PORT/VHOST")
	case u.Scheme != "amqp" && u.Scheme != "amqps":
		return badURL("the scheme is %q, want amqp or amqps", u.Scheme)
	case u.Hostname() == "":
		return badURL("has no host")
	case u.Fragment != "":
		return badURL("must not hold a fragment: write # in a password as %%23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badURL("its parameters cannot be read")
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(query)) {
		file, known := parameters[name]
		switch {
		case name == "exchange" || name == "timeout":
			errs = append(errs, badURL("parameter %q is for Open: set the field", name))
		case !known:
			errs = append(errs, badURL("unknown parameter %q: there are exchange, timeout, %s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")))
		case file:
			if _, err := os.Stat(query.Get(name)); err != nil {
				errs = append(errs, badURL("parameter %q: %v", name, err))
			}
		}
	}
	if len(errs) == 0 {
		if _, err := amqp091.ParseURI(c.URL); err != nil {
			errs = append(errs, badURL("the client library cannot read it: is a parameter no number?"))
		}
	}
	return errors.Join(errs...)
}
