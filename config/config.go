package config

import (
	"log/slog"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// A Config is what Load found. Changing a field has no influence on the others:
// defaults and contradictions were resolved by Load.
type Config struct {
	// DSN names the database; its scheme picks the store.
	DSN string
	// Sink is the URL of the only destination; Sinks and Routes are several.
	Sink   string
	Sinks  []Sink
	Routes []Route
	// AutoMigrate is auto (SQLite only), true or false.
	AutoMigrate string

	Webhook Webhook
	Relay   Relay
	Cleaner Cleaner
	Admin   Admin
	Console Console
	Metrics Metrics
	Notify  Notify
	Log     Log

	// Notes are settings that were accepted and have no effect, with the reason.
	Notes []string

	origins map[string]Origin
}

// Webhook is how messages are posted to an https:// sink.
type Webhook struct {
	SecretFile string
	Allow      []string
}

// Relay is what the relays do.
type Relay struct {
	Enabled bool
	Tables  []string
	// SingleActive and Shards agree: single-active means one shard. Shards 0
	// leaves a table as it is, which at first is one shard.
	SingleActive    bool
	Shards          int
	PollInterval    time.Duration
	BatchSize       int
	LockTTL         time.Duration
	DispatchTimeout time.Duration
	DrainTimeout    time.Duration
	Concurrency     int
	OnDead          string
	// RetryPreset is where the next three come from, unless they are set.
	RetryPreset string
	MaxAttempts int
	RetryBase   time.Duration
	RetryMax    time.Duration
	// LastErrorMaxBytes bounds stored error texts.
	LastErrorMaxBytes int
}

// Cleaner is what is deleted, and when.
type Cleaner struct {
	Enabled bool
	// Tables are those of the relay when none are given.
	Tables   []string
	Interval time.Duration
	// Retention 0 deletes messages when they are published.
	Retention time.Duration
	// DeadRetention 0 keeps dead messages for ever.
	DeadRetention time.Duration
}

// Admin is the listener for metrics and health.
type Admin struct {
	// Addr is host:port; empty means no listener.
	Addr string
}

// Console is the web console of the daemon.
type Console struct {
	// Addr is host:port; empty means no console.
	Addr  string
	Users string
}

// Metrics serves the metrics at one more path of the admin listener, which has them at
// /metrics anyway.
type Metrics struct {
	Enabled bool
	Path    string
}

// Notify is who is told when messages die.
type Notify struct {
	// URL is a destination like Config.Sink; empty means nobody.
	URL string
	// SecretFile is the one of Webhook when it is empty.
	SecretFile string
}

// Log is how the daemon logs.
type Log struct {
	Level      string
	Format     string
	MaskTenant bool
}

// SlogLevel is the level for log/slog.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // Load accepts only names of levels
	return level
}

// RelayTables are the tables to relay: none when the relay is disabled.
func (c *Config) RelayTables() []string {
	if !c.Relay.Enabled {
		return nil
	}
	return c.Relay.Tables
}

// CleanerTables are the tables to clean: none when the cleaner is disabled.
func (c *Config) CleanerTables() []string {
	switch {
	case !c.Cleaner.Enabled:
		return nil
	case len(c.Cleaner.Tables) > 0:
		return c.Cleaner.Tables
	}
	return c.Relay.Tables
}

// RelayConfig is the configuration of the relay of one table. The caller adds
// Hooks, Log and Version.
func (c *Config) RelayConfig(table string) relay.Config {
	r := &c.Relay
	cfg := relay.Config{
		Lease:           r.LockTTL,
		Poll:            r.PollInterval,
		Batch:           r.BatchSize,
		Concurrency:     r.Concurrency,
		DispatchTimeout: r.DispatchTimeout,
		DrainTimeout:    r.DrainTimeout,
		Retries:         outbox.Retries{Default: c.retryPolicy()},
		Shards:          r.Shards,
		MaxError:        r.LastErrorMaxBytes,
		DeleteOnPublish: c.Cleaner.Retention == 0 && slices.Contains(c.CleanerTables(), table),
	}
	if r.OnDead == "skip" {
		cfg.OnDead = relay.Skip
	}
	return cfg
}

// CleanerConfig is the configuration of the cleaner of every table. The caller adds
// Leader, Hooks and Log.
func (c *Config) CleanerConfig() relay.CleanerConfig {
	return relay.CleanerConfig{
		Interval: c.Cleaner.Interval,
		// With retention 0 the relay deletes what it publishes; the cleaner
		// deletes what was published before that was so.
		Retention:     max(c.Cleaner.Retention, time.Nanosecond),
		DeadRetention: c.Cleaner.DeadRetention,
	}
}

func (c *Config) retryPolicy() outbox.RetryPolicy {
	return outbox.RetryPolicy{
		MaxAttempts: c.Relay.MaxAttempts,
		Base:        c.Relay.RetryBase,
		Max:         c.Relay.RetryMax,
	}
}

// Origin says where a setting came from.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// An Origin is where a setting came from: Kind is flag, env, file, preset or
// default; Name says which.
type Origin struct {
	Kind string
	Name string
}

func (o Origin) String() string {
	if o.Name == "" {
		return o.Kind
	}
	return o.Kind + " " + o.Name
}

func (o Origin) isDefault() bool { return o.Kind == "" || o.Kind == "default" || o.Kind == "preset" }
