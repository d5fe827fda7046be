package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/relay"
)

var update = flag.Bool("update", false, "rewrite generated files")

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src config.Sources) *config.Config {
	t.Helper()
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantError loads what must be refused and returns the report.
func wantError(t *testing.T, src config.Sources) string {
	t.Helper()
	_, err := config.Load(src)
	if !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Fatalf("got %v, want an invalid configuration", err)
	}
	return err.Error()
}

func TestDefaults(t *testing.T) {
	c := load(t, config.Sources{})

	want := config.Relay{
		Enabled: true, SingleActive: true, PollInterval: time.Second, BatchSize: 500, LockTTL: 15 * time.Second,
		DispatchTimeout: 30 * time.Second, DrainTimeout: 30 * time.Second, Concurrency: 256, OnDead: "block",
		RetryPreset: "a", MaxAttempts: 25, RetryBase: time.Second, RetryMax: time.Minute, LastErrorMaxBytes: 2048,
	}
	if got := fmt.Sprintf("%+v", c.Relay); got != fmt.Sprintf("%+v", want) {
		t.Errorf("relay\n got %s\nwant %+v", got, want)
	}
	cleaner := config.Cleaner{Enabled: true, Interval: time.Minute, Retention: 168 * time.Hour}
	if got := fmt.Sprintf("%+v", c.Cleaner); got != fmt.Sprintf("%+v", cleaner) {
		t.Errorf("cleaner\n got %s\nwant %+v", got, cleaner)
	}
	if len(c.RelayTables()) > 0 {
		t.Errorf("tables %q, want none", c.RelayTables())
	}
}

func TestEveryNamedVariableWorks(t *testing.T) {
	c := load(t, config.Sources{Env: env(
		"OUTBOX_RELAY_ENABLED", "true",
		"OUTBOX_RELAY_TABLES", "org_outbox, hr.hrm_outbox",
		"OUTBOX_RELAY_SINGLE_ACTIVE", "true",
		"OUTBOX_RELAY_POLL_INTERVAL", "2s",
		"OUTBOX_RELAY_BATCH_SIZE", "100",
		"OUTBOX_RELAY_LOCK_TTL", "60s",
		"OUTBOX_RELAY_MAX_ATTEMPTS", "7",
		"OUTBOX_RELAY_DISPATCH_TIMEOUT", "5s",
		"OUTBOX_LAST_ERROR_MAX_BYTES", "512",
		"OUTBOX_CLEANER_ENABLED", "true",
		"OUTBOX_CLEANER_TABLES", "org_outbox",
		"OUTBOX_CLEANER_INTERVAL", "5m",
		"OUTBOX_CLEANER_RETENTION", "24h",
		"OUTBOX_CLEANER_DEAD_RETENTION", "720h",
		"PROMETHEUS_METRICS_ENABLED", "true",
		"PROMETHEUS_METRICS_PATH", "/metrics",
	)})

	got := c.RelayConfig("org_outbox")
	want := relay.Config{
		Lease: time.Minute, Poll: 2 * time.Second, Batch: 100, Concurrency: 256, Shards: 1,
		DispatchTimeout: 5 * time.Second, DrainTimeout: 30 * time.Second, MaxError: 512,
		Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 7, Base: time.Second, Max: time.Minute}},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("relay\n got %+v\nwant %+v", got, want)
	}
	if want := []string{"org_outbox", "hr.hrm_outbox"}; !slices.Equal(c.RelayTables(), want) {
		t.Errorf("tables %q, want %q", c.RelayTables(), want)
	}
	if want := []string{"org_outbox"}; !slices.Equal(c.CleanerTables(), want) {
		t.Errorf("cleaner tables %q, want %q", c.CleanerTables(), want)
	}
	if got := c.CleanerConfig(); got.Interval != 5*time.Minute || got.Retention != 24*time.Hour || got.DeadRetention != 720*time.Hour {
		t.Errorf("cleaner %+v", got)
	}
	if !c.Metrics.Enabled || c.Metrics.Path != "/metrics" {
		t.Errorf("metrics %+v", c.Metrics)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	src := config.Sources{File: writeFile(t, "relay:\n  poll_interval: 3s\n")}
	check := func(want time.Duration, origin string) {
		t.Helper()
		c := load(t, src)
		if got := c.Origin("relay.poll_interval").String(); c.Relay.PollInterval != want || got != origin {
			t.Errorf("%s from %s, want %s from %s", c.Relay.PollInterval, got, want, origin)
		}
	}

	check(3*time.Second, "file outbox.yaml:2")
	src.Env = env("OUTBOX_RELAY_POLL_INTERVAL", "2s")
	check(2*time.Second, "env OUTBOX_RELAY_POLL_INTERVAL")
	src.Flags = map[string]string{"poll-interval": "1ms"}
	check(time.Millisecond, "flag --poll-interval")
	src = config.Sources{}
	check(time.Second, "default")
}

func TestTheEnvironmentMayNameTheFile(t *testing.T) {
	path := writeFile(t, "relay: {tables: [a, b]}")

	c := load(t, config.Sources{Env: env(config.FileVariable, path)})

	if want := []string{"a", "b"}; !slices.Equal(c.Relay.Tables, want) {
		t.Errorf("tables %q, want %q", c.Relay.Tables, want)
	}
}

func TestTheDSNComesFromOutboxDSNThenDatabaseURL(t *testing.T) {
	c := load(t, config.Sources{Env: env("DATABASE_URL", "postgres://two", "OUTBOX_DSN", "postgres://one")})
	if c.DSN != "postgres://one" {
		t.Errorf("got %s", c.DSN)
	}
	c = load(t, config.Sources{Env: env("DATABASE_URL", "postgres://two", "OUTBOX_DSN", "")})
	if c.DSN != "postgres://two" {
		t.Errorf("got %s", c.DSN)
	}
}

func TestSecretsMayBeInFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte("postgres://u:p@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if c := load(t, config.Sources{Env: env("OUTBOX_DSN_FILE", path)}); c.DSN != "postgres://u:p@h/d" {
		t.Errorf("got %q", c.DSN)
	}

	got := wantError(t, config.Sources{Env: env("OUTBOX_DSN_FILE", path, "OUTBOX_DSN", "postgres://u:hidden@h/d")})
	if want := "OUTBOX_DSN: is set, and so is OUTBOX_DSN_FILE: unset one of them"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	got = wantError(t, config.Sources{Env: env("OUTBOX_DSN_FILE", path+"x")})
	if !strings.HasPrefix(got, "OUTBOX_DSN_FILE: ") {
		t.Errorf("got %q", got)
	}
}

func TestForeignKeysAreUnderstood(t *testing.T) {
	c := load(t, config.Sources{File: writeFile(t, `
outbox:
  scheduler:
    mainProcessInterval: 3s
    retryProcessInterval: 30s
    healthCheckInterval: 60s
    metricsInterval: 30s
    batchSize: 100
  publisher:
    maxRetries: 5
    baseDelay: 2s
    maxDelay: 30m
`)})

	got := c.RelayConfig("x")
	policy := outbox.RetryPolicy{MaxAttempts: 6, Base: 2 * time.Second, Max: 30 * time.Minute}
	if got.Poll != 3*time.Second || got.Batch != 100 || got.Retries.Default != policy {
		t.Errorf("got %+v", got)
	}
	if len(c.Notes) != 3 {
		t.Errorf("notes %q, want one for each key without effect", c.Notes)
	}
}

func TestForeignKeysThatAreAbsentHaveOurDefaults(t *testing.T) {
	c := load(t, config.Sources{File: writeFile(t, "outbox:\n  scheduler:\n    batchSize: 7\n  publisher:\n")})
	if c.Relay.BatchSize != 7 || c.Relay.MaxAttempts != 25 {
		t.Errorf("got %+v", c.Relay)
	}
}

func TestMistakesInTheFileAreNamedWithTheirLine(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "dsn: sqlite:a\nrelais: 1\n", "outbox.yaml:2: relais: unknown key"},
		{"misspelt key", "relay:\n  pol_interval: 1s\n", "outbox.yaml:2: relay.pol_interval: unknown key; did you mean relay.poll_interval?"},
		{"unknown section", "sinc:\n  a: b\n", "outbox.yaml:1: sinc: unknown key; did you mean sink?"},
		{"negative duration", "relay:\n  poll_interval: -1s\n", "outbox.yaml:2: relay.poll_interval: must be at least 1ms, got -1s"},
		{"zero duration", "relay:\n\n  lock_ttl: 0\n", "outbox.yaml:3: relay.lock_ttl: must be at least 100ms, got 0"},
		{"no unit", "relay:\n  poll_interval: 5\n", `outbox.yaml:2: relay.poll_interval: must be a duration such as 500ms, 1s or 168h, got "5"`},
		{"value where a section belongs", "relay: yes\n", "outbox.yaml:1: relay: unknown key"},
		{"list where a value belongs", "dsn: [a, b]\n", "outbox.yaml:1: dsn: must be one value, got a list"},
		{"nested list", "relay:\n  tables:\n  - [a]\n", "outbox.yaml:3: relay.tables: must be a plain list"},
		{"alias", "dsn: &x a\nsink: *x\n", "outbox.yaml:2: sink: anchors and aliases are not supported"},
		{"not a mapping", "- a\n", "outbox.yaml:1: the document: must be a mapping of keys to values"},
		{"two documents", "dsn: a\n---\ndsn: b\n", "outbox.yaml: holds more than one document"},
		{
			"twice", "relay:\n  poll_interval: 1s\noutbox:\n  scheduler:\n    mainProcessInterval: 1s\n",
			"outbox.yaml:5: outbox.scheduler.mainProcessInterval: is set at outbox.yaml:2 already",
		},
		{
			"foreign nonsense", "outbox:\n  publisher:\n    maxRetries: -1\n",
			`outbox.yaml:3: outbox.publisher.maxRetries: must be a number that is not negative, got "-1"`,
		},
		{
			"foreign nonsense without effect", "outbox:\n  scheduler:\n    metricsInterval: -1s\n",
			"outbox.yaml:3: outbox.scheduler.metricsInterval: must be at least 1ms, got -1s",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wantError(t, config.Sources{File: writeFile(t, tt.text)}); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAFileThatIsNotYAMLOrMissingIsRefused(t *testing.T) {
	wantError(t, config.Sources{File: writeFile(t, "dsn: [")})
	wantError(t, config.Sources{File: filepath.Join(t.TempDir(), "missing.yaml")})
}

func TestAnEmptyFileIsFine(t *testing.T) {
	load(t, config.Sources{File: writeFile(t, "")})
	load(t, config.Sources{File: writeFile(t, "# nothing\n")})
}

func TestBadValuesAreNamedTheWayTheyWereGiven(t *testing.T) {
	tests := []struct{ name, env, value, want string }{
		{"negative duration", "OUTBOX_RELAY_POLL_INTERVAL", "-1s", "OUTBOX_RELAY_POLL_INTERVAL: must be at least 1ms, got -1s"},
		{"zero duration", "OUTBOX_RELAY_LOCK_TTL", "0", "OUTBOX_RELAY_LOCK_TTL: must be at least 100ms, got 0"},
		{"negative retention", "OUTBOX_CLEANER_RETENTION", "-1h", "OUTBOX_CLEANER_RETENTION: must not be negative, got -1h"},
		{"zero interval", "OUTBOX_CLEANER_INTERVAL", "0s", "OUTBOX_CLEANER_INTERVAL: must be at least 1ms, got 0s"},
		{"zero batch", "OUTBOX_RELAY_BATCH_SIZE", "0", `OUTBOX_RELAY_BATCH_SIZE: must be a number from 1 to 100000, got "0"`},
		{"switch", "OUTBOX_RELAY_ENABLED", "maybe", `OUTBOX_RELAY_ENABLED: must be true or false, got "maybe"`},
		{"choice", "OUTBOX_RELAY_ON_DEAD", "drop", `OUTBOX_RELAY_ON_DEAD: must be one of block, skip, got "drop"`},
		{"preset", "OUTBOX_RELAY_RETRY_PRESET", "z", `OUTBOX_RELAY_RETRY_PRESET: must be one of a, b, c, d, got "z"`},
		{"same table twice", "OUTBOX_RELAY_TABLES", "a,b,a", `OUTBOX_RELAY_TABLES: lists "a" twice`},
		{"shards", "OUTBOX_RELAY_SHARDS", "257", `OUTBOX_RELAY_SHARDS: must be a number from 1 to 256, got "257"`},
		{"base above max", "OUTBOX_RELAY_RETRY_BASE", "2m", "relay.retry_max: 1m0s is shorter than OUTBOX_RELAY_RETRY_BASE = 2m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wantError(t, config.Sources{Env: env(tt.env, tt.value)}); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAllMistakesAreReportedTogether(t *testing.T) {
	got := wantError(t, config.Sources{
		File:  writeFile(t, "relais: 1\n"),
		Env:   env("OUTBOX_RELAY_POLL_INTERVAL", "-1s"),
		Flags: map[string]string{"batch-size": "x"},
	})
	if lines := strings.Split(got, "\n"); len(lines) != 3 {
		t.Errorf("got %q", lines)
	}
}

func TestShards(t *testing.T) {
	tests := []struct {
		name           string
		single, shards string
		wantSingle     bool
		wantShards     int
	}{
		{"nothing set leaves the table as it is", "", "", true, 0},
		{"single-active is one shard", "true", "", true, 1},
		{"several relays are eight shards", "false", "", false, 8},
		{"a number is enough", "", "4", false, 4},
		{"one shard is single-active", "", "1", true, 1},
		{"both agree on one", "true", "1", true, 1},
		{"both agree on several", "false", "4", false, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, config.Sources{Env: env("OUTBOX_RELAY_SINGLE_ACTIVE", tt.single, "OUTBOX_RELAY_SHARDS", tt.shards)})
			if c.Relay.SingleActive != tt.wantSingle || c.RelayConfig("x").Shards != tt.wantShards {
				t.Errorf("single %t, shards %d", c.Relay.SingleActive, c.Relay.Shards)
			}
		})
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	got := wantError(t, config.Sources{
		Env:   env("OUTBOX_RELAY_SINGLE_ACTIVE", "true"),
		Flags: map[string]string{"shards": "4"},
	})
	if want := "OUTBOX_RELAY_SINGLE_ACTIVE: true contradicts --shards = 4: unset one of them"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wantError(t, config.Sources{Env: env("OUTBOX_RELAY_SINGLE_ACTIVE", "false", "OUTBOX_RELAY_SHARDS", "1")})
}

func TestADisabledRelayHasNoTables(t *testing.T) {
	c := load(t, config.Sources{Env: env("OUTBOX_RELAY_ENABLED", "false", "OUTBOX_RELAY_TABLES", "a")})
	if len(c.RelayTables()) > 0 || len(c.CleanerTables()) != 1 {
		t.Errorf("relays %q, cleans %q", c.RelayTables(), c.CleanerTables())
	}
}

func TestRetentionZeroDeletesAtPublish(t *testing.T) {
	c := load(t, config.Sources{Env: env("OUTBOX_RELAY_TABLES", "a,b", "OUTBOX_CLEANER_RETENTION", "0", "OUTBOX_CLEANER_TABLES", "a")})
	if !c.RelayConfig("a").DeleteOnPublish || c.RelayConfig("b").DeleteOnPublish {
		t.Error("only cleaned tables may lose published messages")
	}
	if got := c.CleanerConfig().Retention; got <= 0 || got > time.Microsecond {
		t.Errorf("older published messages are kept for %s", got)
	}
	c = load(t, config.Sources{Env: env("OUTBOX_RELAY_TABLES", "a", "OUTBOX_CLEANER_RETENTION", "0", "OUTBOX_CLEANER_ENABLED", "false")})
	if c.RelayConfig("a").DeleteOnPublish {
		t.Error("a disabled cleaner deletes nothing")
	}
}

func TestSkipLetsAKeyGoOn(t *testing.T) {
	c := load(t, config.Sources{Flags: map[string]string{"on-dead": "skip"}})
	if c.RelayConfig("a").OnDead != relay.Skip {
		t.Error("on_dead is not skip")
	}
}

func TestRedact(t *testing.T) {
	tests := []struct{ dsn, want string }{
		{"", ""},
		{"sqlite:shop.db", "sqlite:shop.db"},
		{"stdout:", "stdout:"},
		{"postgres://app@db:5432/shop?sslmode=require", "postgres://app@db:5432/shop?sslmode=require"},
		{"postgres://app:hunter2@db/shop", "postgres://app:xxxxx@db/shop"},
		{"postgres://db/shop?user=app&password=hunter2", "postgres://db/shop?password=xxxxx&user=app"},
		{"postgres://app:hun%ter2@db/shop", "postgres:xxxxx"},
		{"host=db password=hunter2", "xxxxx"},
		{"mailto:hunter2", "mailto:xxxxx"},
		{"sqlite:shop.db?_key=hunter2", "sqlite:shop.db?xxxxx"},
	}
	for _, tt := range tests {
		if got := config.Redact(tt.dsn); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.dsn, got, tt.want)
		}
	}
}

func TestPrintedYAMLLoadsAgain(t *testing.T) {
	first := load(t, config.Sources{Env: env(
		"OUTBOX_DSN", "sqlite:my shop.db", "OUTBOX_SINK", "stdout:", "OUTBOX_RELAY_TABLES", "a,b", "OUTBOX_RELAY_SHARDS", "4",
		"OUTBOX_CLEANER_RETENTION", "90m", "OUTBOX_RELAY_RETRY_PRESET", "b")})
	var text bytes.Buffer
	if err := first.WriteYAML(&text); err != nil {
		t.Fatal(err)
	}

	second := load(t, config.Sources{File: writeFile(t, text.String())})

	for i, e := range second.Entries() {
		if want := first.Entries()[i].Value; e.Value != want {
			t.Errorf("%s: %q, want %q", e.Key, e.Value, want)
		}
	}
}

func TestPrintedDefaultsLoadAgain(t *testing.T) {
	var text bytes.Buffer
	if err := load(t, config.Sources{}).WriteYAML(&text); err != nil {
		t.Fatal(err)
	}
	load(t, config.Sources{File: writeFile(t, text.String())})
}

func TestSecretsAreMaskedWhenPrinted(t *testing.T) {
	c := load(t, config.Sources{Env: env("OUTBOX_DSN", "postgres://app:hunter2@db/shop")})
	var text bytes.Buffer
	if err := c.WriteYAML(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "hunter2") || !strings.Contains(text.String(), "postgres://app:xxxxx@db/shop") {
		t.Errorf("got\n%s", text.String())
	}
}

func TestTheTableIsConsistent(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range config.Settings {
		for _, name := range append([]string{s.Key, "--" + s.Flag}, s.Env...) {
			if other, taken := seen[name]; taken {
				t.Errorf("%s belongs to %s and %s", name, other, s.Key)
			}
			seen[name] = s.Key
		}
		if s.Help == "" || s.Flag == "" || len(s.Env) == 0 {
			t.Errorf("%s is incomplete", s.Key)
		}
	}
}

func TestTheReferenceIsUpToDate(t *testing.T) {
	const path = "../docs/configuration.md"
	var want bytes.Buffer
	if err := config.WriteMarkdown(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is stale: run go test ./config -update", path)
	}
}

func ExampleLoad() {
	c, err := config.Load(config.Sources{
		Flags: map[string]string{"tables": "shop_outbox"},
		Env:   os.LookupEnv,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.RelayTables(), c.RelayConfig("shop_outbox").Lease)
	// Output: [shop_outbox] 15s
}
