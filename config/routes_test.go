package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
)

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestTheAnnotatedExampleLoads(t *testing.T) {
	c, err := config.Load(config.Sources{
		File: filepath.Join("..", "docs", "examples", "outbox.yaml"), Env: environment("RABBIT_URL", "amqp://guest@127.0.0.1/?exchange=events", "REDIS_PASSWORD", "hunter2"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sinks) != 5 || len(c.Routes) != 5 {
		t.Fatalf("%d sinks, %d routes", len(c.Sinks), len(c.Routes))
	}
	if c.Sinks[2].URL != "redis://relay:hunter2@127.0.0.1:6379/0" || c.Sinks[3].URL != "amqp://guest@127.0.0.1/?exchange=events" || c.Sinks[4].Timeout != 10*time.Second {
		t.Errorf("sinks are %+v", c.Sinks)
	}
	want := outbox.RoutePolicy{
		Rate: 200, Concurrency: 16, Retry: &outbox.RetryPolicy{MaxAttempts: 15, Base: 2 * time.Second, Max: 10 * time.Minute},
	}
	if got := c.Routes[2].Policy; !reflect.DeepEqual(got, want) {
		t.Errorf("the policy is %+v, want %+v", got, want)
	}
	if !c.Routes[0].Continue || c.Routes[1].Envelope != "cloudevents-binary" || c.Routes[4].Sink != "legacy" {
		t.Errorf("routes are %+v", c.Routes)
	}
}

func TestRoutesPrintAsTheyLoad(t *testing.T) {
	text := "sinks:\n  a:\n    url: https://user:hunter2@a.example/x?token=hunter2\n    secret_file: /s\n    allow: [10.0.0.0/8]\n    timeout: 1s\n" +
		"routes:\n  - name: one\n    topics: ['a.**']\n    sink: a\n    topic: x.{topic}\n    envelope: raw\n    source: s\n    continue: true\n" +
		"    rate: 1.5\n    concurrency: 2\n    order: none\n    on_dead: skip\n    retry:\n      max_attempts: 3\n      base: 1s\n      max: 2s\n"
	c, err := config.Load(config.Sources{File: writeFile(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := c.WriteYAML(&printed); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(printed.String(), "hunter2") {
		t.Errorf("a secret was printed:\n%s", printed.String())
	}
	again, err := config.Load(config.Sources{File: writeFile(t, printed.String())})
	if err != nil {
		t.Fatalf("%v in\n%s", err, printed.String())
	}
	for _, c := range []*config.Config{c, again} {
		for i := range c.Routes {
			c.Routes[i].Where = ""
		}
		for i := range c.Sinks {
			c.Sinks[i].Where, c.Sinks[i].URL = "", ""
		}
	}
	if !reflect.DeepEqual(c.Routes, again.Routes) || !reflect.DeepEqual(c.Sinks, again.Sinks) {
		t.Errorf("got %+v %+v\nwant %+v %+v", again.Sinks, again.Routes, c.Sinks, c.Routes)
	}
}

func TestASinkURLComesFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("redis://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: writeFile(t, "sinks:\n  a:\n    url_file: "+path+"\nroutes:\n  - {sink: a, topics: ['**']}\n")})
	if err != nil || c.Sinks[0].URL != "redis://127.0.0.1:1" || c.Routes[0].Name != "a" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestTheURLOfASinkIsPutTogether(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("p@ss/w:rd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ fields, want string }{
		{"url: 'kafka://a:1,b:2', user: shop, password_file: " + secret + ", options: {tls: true, linger: 5ms}", "kafka://shop:p%40ss%2Fw%3Ard@a:1,b:2?linger=5ms&tls=true"},
		{"url: 'redis://a/2?max_len=7', password_env: PASSWORD", "redis://:se%20cret@a/2?max_len=7"},
		{"url: 'nats://a', user: token", "nats://token@a"},
		{"url: 'amqp://a/vhost', options: {exchange: '', heartbeat: 5}", "amqp://a/vhost?exchange=&heartbeat=5"},
	} {
		c, err := config.Load(config.Sources{
			File: writeFile(t, "sinks:\n  a: {"+tt.fields+"}\nroutes:\n  - {sink: a, topics: ['**']}\n"), Env: environment("PASSWORD", "se cret"),
		})
		if err != nil || c.Sinks[0].URL != tt.want {
			t.Errorf("%s: got %+v, %v", tt.fields, c, err)
		}
	}
}

func TestMistakesInRoutesAreNamedWithTheirLine(t *testing.T) {
	const sinks = "sinks:\n  a: 'stdout:'\n"
	for name, tt := range map[string]struct{ text, want string }{
		"two sinks with one name": {"sinks:\n  a: 'stdout:'\n  a: 'stdout:'\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:3: sinks.a: another sink has the same name"},
		"two routes with one name": {
			sinks + "routes:\n  - {name: r, sink: a, topics: [a]}\n  - {name: r, sink: a, topics: [b]}\n", "outbox.yaml:5: routes[1]: another route is named r, too",
		},
		"no url":                {"sinks:\n  a: {timeout: 1s}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a: url is required (or url_env, or url_file)"},
		"an unknown key":        {sinks + "routes:\n  - {sink: a, topik: x}\n", "outbox.yaml:4: routes[0].topik: unknown key; did you mean topic? There are name, topics, sink, topic, envelope, source, continue, rate, concurrency, order, on_dead, retry.max_attempts, retry.base, retry.max"},
		"a key like none":       {"sinks:\n  a: {url: 'stdout:', certificates: x}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a.certificates: unknown key. There are url, url_env, url_file, user, password_env, password_file, options, secret_file, secret_env, allow, timeout"},
		"options of a webhook":  {"sinks:\n  a: {url: 'https://a.example', options: {tls: true}}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a: user, password and options are for brokers: kafka, nats, amqp and redis"},
		"two users":             {"sinks:\n  a: {url: 'kafka://x@a', user: y}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a: the url has a user already: give it there or here"},
		"nested options":        {"sinks:\n  a: {url: 'kafka://a', options: {tls: {on: true}}}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a.options: tls must be one value"},
		"options that are none": {"sinks:\n  a: {url: 'kafka://a', options: tls}\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:2: sinks.a.options: must be a mapping of names to values"},
		"no such sink":          {sinks + "routes:\n  - {name: r, sink: b, topics: [a]}\n  - {name: q, sink: a, topics: [a]}\n", "outbox.yaml:4: route r: there is no sink named b"},
		"no route":              {sinks, "outbox.yaml:2: sinks: no route leads to them: add routes"},
		"an unused sink":        {"sinks:\n  a: 'stdout:'\n  b: 'stdout:'\nroutes:\n  - {sink: a, topics: ['**']}\n", "outbox.yaml:3: sinks.b: no route leads to it"},
		"sink and routes":       {"sink: 'stdout:'\n" + sinks + "routes:\n  - {sink: a, topics: ['**']}\n", "sink: is set, and so are routes: a route names its sink, so drop one of the two"},
		"a bad rate":            {sinks + "routes:\n  - {sink: a, topics: ['**'], rate: fast}\n", `outbox.yaml:4: routes[0].rate: must be messages a second, got "fast"`},
		"a bad order":           {sinks + "routes:\n  - {sink: a, topics: ['**'], order: random}\n", `outbox.yaml:4: routes[0].order: must be key or none, got "random"`},
		"a bad duration":        {sinks + "routes:\n  - sink: a\n    topics: ['**']\n    retry:\n      base: 2\n", `outbox.yaml:7: routes[0].retry.base: must be a duration such as 500ms or 2m, got "2"`},
		"not a list":            {sinks + "routes: a\n", "outbox.yaml:3: routes: must be a list"},
		"not a mapping":         {"sinks: [a]\n", "outbox.yaml:1: sinks: must be a mapping of names to URLs or settings"},
		"a missing variable": {
			"sinks:\n  a: {url_env: NOPE}\nroutes:\n  - {sink: a, topics: ['**']}\n",
			"outbox.yaml:2: sinks.a.url_env: the environment variable NOPE is not set\noutbox.yaml:2: sinks.a: url is required (or url_env, or url_file)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wantError(t, config.Sources{File: writeFile(t, tt.text)}); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}
