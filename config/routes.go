package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-outbox/outbox"
)

// A Sink is a destination by name. Its fields are those of the file.
type Sink struct {
	Name string
	// URL is the destination, from url, url_env or url_file, with the user, the
	// password and the options that were given beside it.
	URL string
	// SecretFile and Allow are for webhooks; see Webhook. Secrets is what the
	// variable SecretEnv holds instead of a file.
	SecretFile string
	SecretEnv  string
	Secrets    string
	Allow      []string
	// Timeout bounds a webhook request. Zero is half of the dispatch timeout.
	Timeout time.Duration
	// Where is the line that it stands in.
	Where string
}

// A Route is where some topics go. What its fields mean is said by sink.Route.
type Route struct {
	Name     string
	Topics   []string
	Sink     string
	Topic    string
	Envelope string
	Source   string
	Continue bool
	Policy   outbox.RoutePolicy
	// Where is the line that it stands in.
	Where string
}

// A field is one key of a sink or route, and what takes its value. help is for the
// reference.
type field struct {
	name string
	take func(*yaml.Node) error
	help string
}

// sinks reads the mapping of names to sinks.
func (f *fileReader) sinks(node *yaml.Node, line int) {
	if node.Kind != yaml.MappingNode {
		f.fail("sinks", line, "must be a mapping of names to URLs or settings")
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		s := Sink{Name: name.Value, Where: f.where(name.Line)}
		key := "sinks." + s.Name
		if slices.ContainsFunc(f.config.Sinks, func(other Sink) bool { return other.Name == s.Name }) {
			f.fail(key, name.Line, "another sink has the same name")
			continue
		}
		if value.Kind == yaml.ScalarNode {
			s.URL = value.Value
		} else {
			var more urlParts
			f.fields(key, value, f.sinkFields(&s, &more))
			if err := more.addTo(&s.URL); err != nil {
				f.fail(key, name.Line, err.Error())
			}
		}
		if s.URL == "" {
			f.fail(key, name.Line, "url is required (or url_env, or url_file)")
		}
		f.config.Sinks = append(f.config.Sinks, s)
	}
}

func (f *fileReader) sinkFields(s *Sink, more *urlParts) []field {
	return []field{
		{"url", text(&s.URL), "The destination: `stdout:`, `file:PATH`, `https://`, `kafka://`, `nats://`, `amqp://` or `redis://`."},
		{"url_env", f.fromEnv(&s.URL), "The environment variable that holds it."},
		{"url_file", fromFile(&s.URL), "The file that holds it."},
		{"user", text(&more.user), "The user of a broker; alone, the token of NATS."},
		{"password_env", f.fromEnv(&more.password), "The environment variable that holds the password, as it is."},
		{"password_file", fromFile(&more.password), "The file that holds the password, as it is."},
		{"options", options(&more.options), "A mapping of the broker's options, those of its URL: TLS, login, limits ([Kafka](sinks.md#kafka), [NATS](sinks.md#nats-jetstream), [RabbitMQ](sinks.md#rabbitmq), [Redis](sinks.md#redis-streams))."},
		{"secret_file", text(&s.SecretFile), "The file with the secrets that sign webhooks, one `whsec_…` a line; several while one is rotated."},
		{"secret_env", func(n *yaml.Node) error { s.SecretEnv = n.Value; return f.fromEnv(&s.Secrets)(n) }, "The environment variable that holds them, separated by spaces."},
		{"allow", texts(&s.Allow), "Networks that webhooks may reach although they are not public, as CIDRs."},
		{"timeout", duration(&s.Timeout), "Longest time of a webhook request. Default: half of `relay.dispatch_timeout`."},
	}
}

func (f *fileReader) fromEnv(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if *to = f.env(n.Value); *to == "" {
			return fmt.Errorf("the environment variable %s is not set", n.Value)
		}
		return nil
	}
}

func fromFile(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) (err error) { *to, err = readSecret(n.Value); return err }
}

// urlParts are what a sink has beside its URL, and what becomes part of it.
type urlParts struct {
	user, password string
	options        url.Values
}

// addTo makes one URL of all.
func (p urlParts) addTo(to *string) error {
	if *to == "" || p.user+p.password == "" && len(p.options) == 0 {
		return nil
	}
	scheme, rest, ok := strings.Cut(*to, "://")
	if !ok || scheme == "https" || scheme == "http" || scheme == "file" {
		return errors.New("user, password and options are for brokers: kafka, nats, amqp and redis")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, _, _ := strings.Cut(rest, "/")
	if p.user+p.password != "" {
		if strings.Contains(hosts, "@") {
			return errors.New("the url has a user already: give it there or here")
		}
		rest = p.login() + "@" + rest
	}
	*to = scheme + "://" + rest
	if query = strings.Trim(query+"&"+p.options.Encode(), "&"); query != "" {
		*to += "?" + query
	}
	return nil
}

func (p urlParts) login() string {
	if p.password == "" {
		return url.User(p.user).String()
	}
	return url.UserPassword(p.user, p.password).String()
}

// options reads a mapping of names to single values. Which there are the sink knows.
func options(to *url.Values) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return errors.New("must be a mapping of names to values")
		}
		*to = url.Values{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if value.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s must be one value", name.Value)
			}
			to.Add(name.Value, value.Value)
		}
		return nil
	}
}

// routes reads the list of routes, in order.
func (f *fileReader) routes(node *yaml.Node, line int) {
	if node.Kind != yaml.SequenceNode {
		f.fail("routes", line, "must be a list")
		return
	}
	for i, item := range node.Content {
		r := Route{Where: f.where(item.Line)}
		key := fmt.Sprintf("routes[%d]", i)
		f.fields(key, item, routeFields(&r))
		if slices.ContainsFunc(f.config.Routes, func(other Route) bool { return other.Name == r.Name && r.Name != "" }) {
			f.fail(key, item.Line, fmt.Sprintf("another route is named %s, too", r.Name))
		}
		if r.Name == "" {
			r.Name = r.Sink
		}
		f.config.Routes = append(f.config.Routes, r)
	}
}

func routeFields(r *Route) []field {
	return []field{
		{"name", text(&r.Name), "Its name in metrics, `pause` and the console. Default: its sink's."},
		{"topics", texts(&r.Topics), "Patterns: `*` is one segment, `**` at the end one or more. The first route that matches takes a message."},
		{"sink", text(&r.Sink), "Which of `sinks`."},
		{"topic", text(&r.Topic), "A template that renames the topic: `{topic}`, `{table}`, `{tenant}`, `{aggregate_type}`, `{event_type}`, `{version}`."},
		{"envelope", text(&r.Envelope), "`raw` (the default), `cloudevents-binary` or `cloudevents-structured`."},
		{"source", text(&r.Source), "The source of the envelope. Default: `/outbox/TABLE`."},
		{"continue", boolean(&r.Continue), "`true`: a message goes to the next route that matches, too."},
		{"rate", func(n *yaml.Node) (err error) {
			if r.Policy.Rate, err = strconv.ParseFloat(n.Value, 64); err != nil || r.Policy.Rate <= 0 {
				return fmt.Errorf("must be messages a second, got %q", n.Value)
			}
			return nil
		}, "Messages a second, at most."},
		{"concurrency", whole(&r.Policy.Concurrency), "Dispatches at once. Default: `relay.concurrency`."},
		{"order", choice(func(word string) { r.Policy.Unordered = word == "none" }, "key", "none"), "`key` (the default), or `none`: keys do not make messages wait."},
		{"on_dead", choice(func(word string) { r.Policy.SkipDead = word == "skip" }, "block", "skip"), "`block` or `skip`, as `relay.on_dead`."},
		{"retry.max_attempts", func(n *yaml.Node) error { return whole(&retry(r).MaxAttempts)(n) }, "As `relay.max_attempts`."},
		{"retry.base", func(n *yaml.Node) error { return duration(&retry(r).Base)(n) }, "As `relay.retry_base`."},
		{"retry.max", func(n *yaml.Node) error { return duration(&retry(r).Max)(n) }, "As `relay.retry_max`."},
	}
}

func retry(r *Route) *outbox.RetryPolicy {
	if r.Policy.Retry == nil {
		r.Policy.Retry = &outbox.RetryPolicy{}
	}
	return r.Policy.Retry
}

// fields reads a mapping of known keys; a dot in a name is nesting.
func (f *fileReader) fields(key string, node *yaml.Node, known []field) {
	if node.Kind != yaml.MappingNode {
		f.fail(key, node.Line, "must be a mapping of "+names(known))
		return
	}
	f.nested(key, "", node, known)
}

func (f *fileReader) nested(key, prefix string, node *yaml.Node, known []field) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		full := prefix + name.Value
		at := slices.IndexFunc(known, func(k field) bool { return k.name == full })
		switch {
		case at >= 0:
			if err := known[at].take(value); err != nil {
				f.fail(key+"."+full, name.Line, err.Error())
			}
		case value.Kind == yaml.MappingNode && slices.ContainsFunc(known, func(k field) bool { return strings.HasPrefix(k.name, full+".") }):
			f.nested(key, full+".", value, known)
		default:
			f.fail(key+"."+full, name.Line, unknownKey(full, fieldNames(known))+" There are "+names(known))
		}
	}
}

func names(known []field) string { return strings.Join(fieldNames(known), ", ") }

func fieldNames(known []field) []string {
	all := make([]string, len(known))
	for i, k := range known {
		all[i] = k.name
	}
	return all
}

func text(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode {
			return fmt.Errorf("must be one value")
		}
		*to = n.Value
		return nil
	}
}

func texts(to *[]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind == yaml.ScalarNode {
			*to = []string{n.Value}
			return nil
		}
		if err := n.Decode(to); err != nil {
			return fmt.Errorf("must be a list of texts")
		}
		return nil
	}
}

func boolean(to *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if err := n.Decode(to); err != nil {
			return fmt.Errorf("must be true or false, got %q", n.Value)
		}
		return nil
	}
}

func whole(to *int) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		v, err := strconv.Atoi(n.Value)
		if err != nil || v < 1 {
			return fmt.Errorf("must be a number of at least 1, got %q", n.Value)
		}
		*to = v
		return nil
	}
}

func duration(to *time.Duration) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		d, err := time.ParseDuration(n.Value)
		if err != nil || d <= 0 {
			return fmt.Errorf("must be a duration such as 500ms or 2m, got %q", n.Value)
		}
		*to = d
		return nil
	}
}

func choice(take func(string), words ...string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if !slices.Contains(words, n.Value) {
			return fmt.Errorf("must be %s, got %q", strings.Join(words, " or "), n.Value)
		}
		take(n.Value)
		return nil
	}
}

// checkRoutes finds what does not fit together.
func (c *Config) checkRoutes() []error {
	var errs []error
	if len(c.Routes) > 0 && c.Sink != "" {
		errs = append(errs, invalid("sink", "is set, and so are routes: a route names its sink, so drop one of the two"))
	}
	if len(c.Sinks) > 0 && len(c.Routes) == 0 {
		errs = append(errs, invalid(c.Sinks[0].Where+": sinks", "no route leads to them: add routes"))
	}
	used := map[string]bool{}
	for _, r := range c.Routes {
		used[r.Sink] = true
		switch {
		case r.Sink == "":
			errs = append(errs, invalid(r.Where+": route "+r.Name, "sink is required"))
		case !slices.ContainsFunc(c.Sinks, func(s Sink) bool { return s.Name == r.Sink }):
			errs = append(errs, invalid(r.Where+": route "+r.Name, "there is no sink named "+r.Sink))
		}
	}
	for _, s := range c.Sinks {
		if len(c.Routes) > 0 && !used[s.Name] {
			errs = append(errs, invalid(s.Where+": sinks."+s.Name, "no route leads to it"))
		}
	}
	return errs
}

// writeRoutes prints the sinks and routes as Load would accept them, but for masked
// secrets.
func (c *Config) writeRoutes(w io.Writer) {
	if len(c.Routes) == 0 {
		return
	}
	fmt.Fprintln(w, "sinks:")
	for _, s := range c.Sinks {
		fmt.Fprintf(w, "  %s:\n    url: %s\n", yamlText(s.Name), yamlText(Redact(s.URL)))
		printText(w, "    secret_file", s.SecretFile)
		printText(w, "    secret_env", s.SecretEnv)
		printTexts(w, "    allow", s.Allow)
		if s.Timeout > 0 {
			printText(w, "    timeout", s.Timeout.String())
		}
	}
	fmt.Fprintln(w, "routes:")
	for _, r := range c.Routes {
		fmt.Fprintf(w, "  - name: %s\n", yamlText(r.Name))
		printTexts(w, "    topics", r.Topics)
		printText(w, "    sink", r.Sink)
		printText(w, "    topic", r.Topic)
		printText(w, "    envelope", r.Envelope)
		printText(w, "    source", r.Source)
		if r.Continue {
			printText(w, "    continue", "true")
		}
		writePolicy(w, r.Policy)
	}
}

func writePolicy(w io.Writer, p outbox.RoutePolicy) {
	if p.Rate > 0 {
		printText(w, "    rate", strconv.FormatFloat(p.Rate, 'g', -1, 64))
	}
	if p.Concurrency > 0 {
		printText(w, "    concurrency", strconv.Itoa(p.Concurrency))
	}
	if p.Unordered {
		printText(w, "    order", "none")
	}
	if p.SkipDead {
		printText(w, "    on_dead", "skip")
	}
	if p.Retry == nil {
		return
	}
	fmt.Fprintln(w, "    retry:")
	if p.Retry.MaxAttempts > 0 {
		printText(w, "      max_attempts", strconv.Itoa(p.Retry.MaxAttempts))
	}
	if p.Retry.Base > 0 {
		printText(w, "      base", p.Retry.Base.String())
	}
	if p.Retry.Max > 0 {
		printText(w, "      max", p.Retry.Max.String())
	}
}

func printText(w io.Writer, key, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s: %s\n", key, yamlText(value))
	}
}

func printTexts(w io.Writer, key string, values []string) {
	if len(values) == 0 {
		return
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	fmt.Fprintf(w, "%s: [%s]\n", key, strings.Join(quoted, ", "))
}
