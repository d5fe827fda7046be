package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	routing "github.com/go-outbox/outbox/sink"
	"github.com/go-outbox/outbox/sink/kafkasink"
	"github.com/go-outbox/outbox/sink/natssink"
	"github.com/go-outbox/outbox/sink/rabbitsink"
	"github.com/go-outbox/outbox/sink/redissink"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/sink/writersink"
	"github.com/go-outbox/outbox/webhook"
)

const knownSinks = "stdout:, file:PATH, https://HOST/PATH, kafka://HOST:PORT, nats://HOST:PORT, amqp://HOST:PORT or redis://HOST:PORT"

// A sink is an opened destination. Close it when the relays have stopped.
type sink struct {
	outbox.Dispatcher // its dynamic type may be more: a router, a batch dispatcher
	close             func() error
}

// A pinger is a sink that can say whether its destination answers.
type pinger interface{ Ping(context.Context) error }

// openSink opens the destination, or all of them and the routes that lead to them.
func openSink(cfg *config.Config, stdout io.Writer) (*sink, error) {
	if len(cfg.Routes) > 0 {
		return openRoutes(cfg, stdout)
	}
	if cfg.Sink == "" {
		return nil, usagef("no destination: use --sink with %s, or routes in a --config file", knownSinks)
	}
	return openOne(config.Sink{URL: cfg.Sink, SecretFile: cfg.Webhook.SecretFile, Allow: cfg.Webhook.Allow}, cfg, stdout)
}

// openRoutes opens every sink and makes a router of the routes. A mistake is reported
// with the line it stands in.
func openRoutes(cfg *config.Config, stdout io.Writer) (_ *sink, err error) {
	sinks := make(map[string]*sink, len(cfg.Sinks))
	closeAll := func() error {
		var errs []error
		for _, s := range sinks {
			errs = append(errs, s.close())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	for _, sc := range cfg.Sinks {
		s, err := openOne(sc, cfg, stdout)
		if err != nil {
			return nil, usagef("%s: sinks.%s: %v", sc.Where, sc.Name, err)
		}
		sinks[sc.Name] = s
	}
	routes := make([]routing.Route, len(cfg.Routes))
	for i, rc := range cfg.Routes {
		routes[i] = routing.Route{
			Name: rc.Name, Topics: rc.Topics, Sink: sinks[rc.Sink].Dispatcher, Topic: rc.Topic, Continue: rc.Continue, Policy: rc.Policy,
			Envelope: routing.Envelope{Format: routing.Format(rc.Envelope), Source: rc.Source, Binding: binding(cfg, rc.Sink)},
		}
		if err := routes[i].Validate(); err != nil {
			return nil, usagef("%s: %v", rc.Where, err)
		}
	}
	router, err := routing.NewRouter(routes...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return &sink{router, closeAll}, nil
}

// binding is how the protocol of a sink writes the attributes of an envelope.
func binding(cfg *config.Config, name string) routing.Binding {
	for _, s := range cfg.Sinks {
		if s.Name != name {
			continue
		}
		switch scheme, _, _ := strings.Cut(s.URL, ":"); scheme {
		case "kafka":
			return routing.Kafka
		case "amqp", "amqps":
			return routing.AMQP
		}
	}
	return routing.HTTP
}

// openOne picks the sink by the URL's scheme.
func openOne(sc config.Sink, cfg *config.Config, stdout io.Writer) (*sink, error) {
	scheme, rest, ok := strings.Cut(sc.URL, ":")
	if !ok {
		return nil, usagef("the sink has no scheme: use %s", knownSinks)
	}
	switch scheme {
	case "stdout":
		if rest != "" {
			return nil, usagef("stdout: takes no path; did you mean file:%s?", rest)
		}
		return &sink{writersink.New(stdout), func() error { return nil }}, nil
	case "file":
		path := strings.TrimPrefix(rest, "//")
		if path == "" {
			return nil, usagef("the sink names no file: use file:PATH")
		}
		s, err := writersink.OpenFile(path)
		if err != nil {
			return nil, err
		}
		return &sink{s, s.Close}, nil
	case "https", "http":
		return openWebhook(sc, cfg.Relay.DispatchTimeout/2)
	case "kafka":
		return opened(kafkasink.Open(sc.URL))
	case "nats", "tls":
		return opened(natssink.Open(sc.URL))
	case "amqp", "amqps":
		return opened(rabbitsink.Open(sc.URL))
	case "redis", "rediss":
		redis.SetLogger(silence{}) // its errors come back from the dispatch
		return opened(redissink.Open(sc.URL))
	case "bus":
		return nil, usagef("bus: is for programs that embed the relay: nobody subscribes to a bus in this one")
	}
	return nil, usagef("unknown sink %q: use %s", scheme, knownSinks)
}

// silence is a logger of the Redis client.
type silence struct{}

// Printf does nothing.
func (silence) Printf(context.Context, string, ...any) {}

// opened turns what a broker's sink package returns into a sink. What is wrong with a
// URL is the user's to mend.
func opened[S interface {
	outbox.Dispatcher
	io.Closer
}](s S, err error) (*sink, error) {
	if err != nil {
		return nil, usagef("sink: %v", err)
	}
	return &sink{s, s.Close}, nil
}

// openWebhook makes the sink of an https:// URL. A port that the URL names is one
// that the operator wants.
func openWebhook(sc config.Sink, timeout time.Duration) (*sink, error) {
	if sc.Timeout > 0 {
		timeout = sc.Timeout
	}
	wc := webhooksink.Config{URL: sc.URL, Timeout: timeout}
	var err error
	if wc.Secrets, err = webhookSecrets(sc); err != nil {
		return nil, err
	}
	for _, text := range sc.Allow {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usagef("webhook.allow: %q is no network: want a CIDR such as 10.0.0.0/8", text)
		}
		wc.Allow = append(wc.Allow, network)
	}
	if u, err := url.Parse(sc.URL); err == nil && u.Port() != "" {
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			wc.Ports = append(wc.Ports, uint16(port))
		}
	}
	s, err := webhooksink.New(wc)
	if err != nil {
		return nil, usagef("sink: %v", err)
	}
	return &sink{s, s.Close}, nil
}

// webhookSecrets are those of a file, one a line, or of an environment variable.
func webhookSecrets(sc config.Sink) ([]webhook.Secret, error) {
	if sc.SecretEnv != "" {
		return parseSecrets("secret_env: "+sc.SecretEnv, strings.Fields(sc.Secrets))
	}
	if sc.SecretFile == "" {
		return nil, usagef("a webhook needs a secret to sign with: use --webhook-secret-file FILE or OUTBOX_WEBHOOK_SECRET_FILE, " +
			"or secret_file or secret_env of the sink in a --config file")
	}
	text, err := os.ReadFile(sc.SecretFile)
	if err != nil {
		return nil, usagef("webhook.secret_file: %v", err)
	}
	return parseSecrets("webhook.secret_file: "+sc.SecretFile, strings.Fields(string(text)))
}

// parseSecrets never shows what it reads.
func parseSecrets(where string, texts []string) ([]webhook.Secret, error) {
	secrets := make([]webhook.Secret, len(texts))
	for i, text := range texts {
		var err error
		if secrets[i], err = webhook.ParseSecret(text); err != nil {
			return nil, usagef("%s: secret %d: %v", where, i+1, err)
		}
	}
	if len(secrets) == 0 {
		return nil, usagef("%s holds no secret", where)
	}
	return secrets, nil
}

// probeTimeout bounds the probe of one sink.
const probeTimeout = 10 * time.Second

// probeSinks asks every destination whether it answers, without sending a message.
func probeSinks(ctx context.Context, cfg *config.Config) []finding {
	sinks := cfg.Sinks
	if cfg.Sink != "" {
		sinks = append(sinks, config.Sink{Name: "sink", URL: cfg.Sink, SecretFile: cfg.Webhook.SecretFile, Allow: cfg.Webhook.Allow})
	}
	var findings []finding
	for _, sc := range sinks {
		findings = append(findings, probe(ctx, sc, cfg))
	}
	return findings
}

func probe(ctx context.Context, sc config.Sink, cfg *config.Config) finding {
	f := finding{Name: "sink " + sc.Name, Level: "ok"}
	bad := func(err error, fix string) finding {
		f.Level, f.Text, f.Fix = "error", err.Error(), fix
		return f
	}
	s, err := openOne(sc, cfg, io.Discard)
	if err != nil {
		return bad(err, "correct its configuration")
	}
	defer s.close() //nolint:errcheck // nothing was sent
	p, ok := s.Dispatcher.(pinger)
	if !ok {
		f.Text = "cannot be asked without sending a message"
		return f
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	if err := p.Ping(ctx); err != nil {
		return bad(err, "check that "+config.Redact(sc.URL)+" is right and can be reached from here")
	}
	f.Text = config.Redact(sc.URL) + " answers"
	return f
}
