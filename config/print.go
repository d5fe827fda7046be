package config

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-outbox/outbox/compat"
)

// An Entry is a setting as it is in force. Secrets are masked.
type Entry struct {
	Key    string
	Value  string
	Origin Origin
}

// Entries lists every setting as it is in force.
func (c *Config) Entries() []Entry {
	entries := make([]Entry, len(Settings))
	for i, s := range Settings {
		text := s.bind(c).String()
		switch {
		case s.Secret:
			text = Redact(text)
		case s.Computed != "" && c.origins[s.Key].Kind == "default":
			text = "" // decided elsewhere; printing a number would pin it
		}
		entries[i] = Entry{s.Key, text, c.origins[s.Key]}
	}
	return entries
}

// WriteYAML prints the configuration in force as a file that Load would accept, but
// for masked secrets; comments say where each value came from.
func (c *Config) WriteYAML(w io.Writer) error {
	var b strings.Builder
	section := ""
	for _, e := range c.Entries() {
		name, indent := e.Key, ""
		if s, rest, ok := strings.Cut(e.Key, "."); ok {
			if s != section {
				fmt.Fprintf(&b, "%s:\n", s)
				section = s
			}
			name, indent = rest, "  "
		}
		fmt.Fprintf(&b, "%-44s # %s\n", indent+name+": "+yamlText(e.Value), e.Origin)
	}
	c.writeRoutes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// yamlText quotes what YAML might not read as the same text.
func yamlText(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./-,", r)
	}
	if s == "" || strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && s[0] != '-' && s[0] != ',' {
		return s
	}
	return quote(s)
}

const masked = "xxxxx"

// secretWords mark query parameters that are not for printing.
var secretWords = []string{"pass", "secret", "token", "key", "auth", "sig"}

// Redact masks the credentials in a DSN or sink URL. What cannot be understood is
// masked whole.
func Redact(dsn string) string {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return ""
	case !ok:
		return masked
	case scheme == "sqlite" || scheme == "file" || scheme == "stdout":
		path, query, _ := strings.Cut(rest, "?")
		if query == "" {
			return dsn
		}
		return scheme + ":" + path + "?" + masked
	}
	u, err := url.Parse(dsn)
	switch {
	case !isScheme(scheme):
		return masked
	case err != nil || u.Scheme != scheme || u.Host == "" && u.Opaque != "":
		return scheme + ":" + masked
	}
	_, has := u.User.Password()
	switch {
	case has:
		u.User = url.UserPassword(u.User.Username(), masked)
	case u.User != nil && scheme == "nats": // a lone name is a token there
		u.User = url.User(masked)
	}
	if (scheme == "https" || scheme == "http") && strings.Trim(u.Path, "/") != "" {
		u.Path, u.RawPath = "/"+masked, "" // many a webhook has its secret in the path
	}
	query := u.Query()
	for name := range query {
		if hasSecretWord(name) {
			query.Set(name, masked)
		}
	}
	u.RawQuery = query.Encode()
	u.Fragment = ""
	return u.String()
}

func isScheme(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

func hasSecretWord(name string) bool {
	for _, word := range secretWords {
		if strings.Contains(strings.ToLower(name), word) {
			return true
		}
	}
	return false
}

// WriteMarkdown writes the reference of all settings.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(markdownHead)
	section := "-"
	for _, s := range Settings {
		name, _, ok := strings.Cut(s.Key, ".")
		if !ok {
			name = "general"
		}
		if name != section {
			section = name
			fmt.Fprintf(&b, "\n### %s\n\n| key | environment | flag | default | meaning |\n|---|---|---|---|---|\n", title(name))
		}
		fmt.Fprintf(&b, "| `%s` | %s | `--%s` | %s | %s |\n", s.Key, envCell(s), s.Flag, defaultCell(s), s.Help)
	}
	b.WriteString(markdownSinks)
	writeFields(&b, (&fileReader{}).sinkFields(&Sink{}, &urlParts{}))
	b.WriteString(markdownRoutes)
	writeFields(&b, routeFields(&Route{}))
	b.WriteString(markdownForeign)
	for _, k := range compat.Keys {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Name, foreignCell(k))
	}
	b.WriteString(markdownTail)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFields(w io.Writer, fields []field) {
	for _, f := range fields {
		fmt.Fprintf(w, "| `%s` | %s |\n", f.name, f.help)
	}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func envCell(s Setting) string {
	names := make([]string, 0, 2*len(s.Env))
	for _, name := range s.Env {
		names = append(names, "`"+name+"`")
		if s.Secret {
			names = append(names, "`"+name+"_FILE`")
		}
	}
	return strings.Join(names, ", ")
}

func defaultCell(s Setting) string {
	switch {
	case s.Computed != "":
		return s.Computed
	case s.Default == "":
		return "none"
	}
	return "`" + s.Default + "`"
}

func foreignCell(k compat.Key) string {
	switch {
	case k.Ours == "":
		return "accepted, no effect: " + k.Note
	case k.Note != "":
		return "`" + k.Ours + "` (" + k.Note + ")"
	}
	return "`" + k.Ours + "`"
}

const markdownHead = `# Configuration

<!-- Generated from the table in config/settings.go: go test ./config -update -->

A setting comes from its flag, else from the environment, else from a YAML file, else it has its default. The file is
named by ` + "`--config FILE`" + ` or ` + "`OUTBOX_CONFIG`" + `. ` + "`outbox config print`" + ` shows what is in force and where each value
came from, with credentials masked.

- Every mistake is reported at once, by the name you gave it, and the exit code is 2: an unknown key (with its line), a
  value out of range, a duration without a unit, settings that contradict each other.
- An empty environment variable counts as unset.
- Secrets can be kept in files: set the variable that ends in ` + "`_FILE`" + ` to the path. Setting both is an error.
- In YAML, the dots of a key are nesting; lists may be lists:

` + "```yaml" + `
dsn: sqlite:shop.db
sink: "stdout:"
relay:
  tables: [shop_outbox]
  poll_interval: 500ms
cleaner:
  retention: 72h
` + "```" + `

## Settings
`

const markdownSinks = `
## Sinks

Several destinations are ` + "`sinks`" + ` by name, in the file only: ` + "`events: kafka://127.0.0.1:9092`" + `, or a mapping. What the
URL may hold can stand beside it, and a password then need not be percent-encoded:

` + "```yaml" + `
sinks:
  events:
    url: kafka://broker-1:9093,broker-2:9093
    user: shop
    password_file: /run/secrets/kafka
    options: {tls: true, ca_file: /etc/kafka/ca.pem, sasl: scram-sha-256}
routes:
  - {sink: events, topics: ["**"]}
` + "```" + `

| key of a sink | meaning |
|---|---|
`

const markdownRoutes = `
## Routes

` + "`routes`" + ` is a list, in order; [what they do](sinks.md#routes).

| key of a route | meaning |
|---|---|
`

const markdownForeign = `
## Keys of other systems

Files written for a scheduler and publisher configuration are understood as they are:

| key | meaning here |
|---|---|
`

const markdownTail = `
## Exit codes

| code | meaning |
|---|---|
| 0 | success; for the daemon, an orderly stop |
| 1 | failure |
| 2 | usage: wrong flags, arguments or settings |
| 3 | the schema is missing, too old or too new |
| 4 | a threshold was exceeded (outbox check) |
| 130 | interrupted |
`
