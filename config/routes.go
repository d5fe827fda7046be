package config

import (
	"fmt"
	"io"
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
	// URL is the destination, from url, url_env or url_file.
	URL string
	// SecretFile and Allow are for webhooks; see Webhook.
	SecretFile string
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

// A field is one key of a sink or route, and what takes its value.
type field struct {
	name string
	take func(*yaml.Node) error
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
			f.fields(key, value, f.sinkFields(&s))
		}
		if s.URL == "" {
			f.fail(key, name.Line, "url is required (or url_env, or url_file)")
		}
		f.config.Sinks = append(f.config.Sinks, s)
	}
}

func (f *fileReader) sinkFields(s *Sink) []field {
	return []field{
		{"url", text(&s.URL)},
		{"url_env", func(n *yaml.Node) error {
			if s.URL = f.env(n.Value); s.URL == "" {
				return fmt.Errorf("the environment variable %s is not set", n.Value)
			}
			return nil
		}},
		{"url_file", func(n *yaml.Node) (err error) { s.URL, err = readSecret(n.Value); return err }},
		{"secret_file", text(&s.SecretFile)},
		{"allow", texts(&s.Allow)},
		{"timeout", duration(&s.Timeout)},
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
		{"name", text(&r.Name)},
		{"topics", texts(&r.Topics)},
		{"sink", text(&r.Sink)},
		{"topic", text(&r.Topic)},
		{"envelope", text(&r.Envelope)},
		{"source", text(&r.Source)},
		{"continue", boolean(&r.Continue)},
		{"rate", func(n *yaml.Node) (err error) {
			if r.Policy.Rate, err = strconv.ParseFloat(n.Value, 64); err != nil || r.Policy.Rate <= 0 {
				return fmt.Errorf("must be messages a second, got %q", n.Value)
			}
			return nil
		}},
		{"concurrency", whole(&r.Policy.Concurrency)},
		{"order", choice(func(word string) { r.Policy.Unordered = word == "none" }, "key", "none")},
		{"on_dead", choice(func(word string) { r.Policy.SkipDead = word == "skip" }, "block", "skip")},
		{"retry.max_attempts", func(n *yaml.Node) error { return whole(&retry(r).MaxAttempts)(n) }},
		{"retry.base", func(n *yaml.Node) error { return duration(&retry(r).Base)(n) }},
		{"retry.max", func(n *yaml.Node) error { return duration(&retry(r).Max)(n) }},
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
			f.fail(key+"."+full, name.Line, "unknown key; there are "+names(known))
		}
	}
}

func names(known []field) string {
	all := make([]string, len(known))
	for i, k := range known {
		all[i] = k.name
	}
	return strings.Join(all, ", ")
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
