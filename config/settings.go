package config

import "time"

// A Setting is one row of the table that drives everything here.
type Setting struct {
	// Key is its name in YAML, dotted.
	Key string
	// Env are its environment variables, the first of those set wins. A secret
	// may also be in the file that the variable with _FILE appended names.
	Env []string
	// Flag is its command-line flag, without the dashes.
	Flag string
	// Default is what applies when it is not set; Computed says instead where
	// the default comes from.
	Default  string
	Computed string
	// Secret: printed with its credentials masked.
	Secret bool
	Help   string

	bind func(*Config) value
}

// Bool reports whether the setting is a switch, whose flag needs no value.
func (s Setting) Bool() bool {
	_, ok := s.bind(&Config{}).(boolValue)
	return ok
}

// Settings lists every setting, in the order people read them. Do not modify it.
var Settings = []Setting{
	{
		Key: "dsn", Env: []string{"OUTBOX_DSN", "DATABASE_URL"}, Flag: "dsn", Secret: true,
		Help: "Database: `sqlite:FILE`, `postgres://USER:PASSWORD@HOST/DATABASE` or `mysql://USER:PASSWORD@HOST/DATABASE`.",
		bind: func(c *Config) value { return textValue{&c.DSN} },
	},
	{
		Key: "sink", Env: []string{"OUTBOX_SINK"}, Flag: "sink", Secret: true,
		Help: "Destination: `stdout:` or `file:PATH`, JSON lines both, the `https://` URL of a webhook, or a broker: `kafka://`, `nats://`, `amqp://`, `redis://`. Several need `sinks` and `routes` in a file.",
		bind: func(c *Config) value { return textValue{&c.Sink} },
	},
	{
		Key: "webhook.secret_file", Env: []string{"OUTBOX_WEBHOOK_SECRET_FILE"}, Flag: "webhook-secret-file",
		Help: "File with the secrets that sign webhooks, one `whsec_…` a line; several while one is rotated.",
		bind: func(c *Config) value { return textValue{&c.Webhook.SecretFile} },
	},
	{
		Key: "webhook.allow", Env: []string{"OUTBOX_WEBHOOK_ALLOW"}, Flag: "webhook-allow",
		Help: "Networks that webhooks may reach although they are not public, as CIDRs separated by commas. `http://` needs it, too.",
		bind: func(c *Config) value { return listValue{&c.Webhook.Allow} },
	},
	{
		Key: "auto_migrate", Env: []string{"OUTBOX_AUTO_MIGRATE"}, Flag: "auto-migrate", Default: "auto",
		Help: "Create or upgrade the schema when the daemon starts: `true`, `false`, or `auto`, which does so on SQLite only.",
		bind: func(c *Config) value { return choiceValue{&c.AutoMigrate, []string{"auto", "true", "false"}} },
	},
	{
		Key: "relay.enabled", Env: []string{"OUTBOX_RELAY_ENABLED"}, Flag: "enabled", Default: "true",
		Help: "`false`: the daemon stays up and healthy and relays nothing. Enqueued messages wait.",
		bind: func(c *Config) value { return boolValue{&c.Relay.Enabled} },
	},
	{
		Key: "relay.tables", Env: []string{"OUTBOX_RELAY_TABLES"}, Flag: "tables",
		Help: "Outbox tables, `name` or `schema.name`, separated by commas; `--table` is the same for one. None: relay nothing.",
		bind: func(c *Config) value { return listValue{&c.Relay.Tables} },
	},
	{
		Key: "relay.single_active", Env: []string{"OUTBOX_RELAY_SINGLE_ACTIVE"}, Flag: "single-active", Default: "true",
		Help: "One relay works a table at a time, others stand by. `false`: several do, on 8 shards unless `relay.shards` says otherwise.",
		bind: func(c *Config) value { return boolValue{&c.Relay.SingleActive} },
	},
	{
		Key: "relay.shards", Env: []string{"OUTBOX_RELAY_SHARDS"}, Flag: "shards", Computed: "as the table is, 1 at first",
		Help: "How many relays may work a table at once. Order per key is kept. More than 1 contradicts `relay.single_active: true`.",
		bind: func(c *Config) value { return intValue{&c.Relay.Shards, 1, 256} },
	},
	{
		Key: "relay.poll_interval", Env: []string{"OUTBOX_RELAY_POLL_INTERVAL"}, Flag: "poll-interval", Default: "1s",
		Help: "Longest wait between two looks at an idle table; a busy one is looked at every few milliseconds.",
		bind: func(c *Config) value { return durationValue{&c.Relay.PollInterval, time.Millisecond} },
	},
	{
		Key: "relay.batch_size", Env: []string{"OUTBOX_RELAY_BATCH_SIZE"}, Flag: "batch-size", Default: "500",
		Help: "Messages recorded at once. More cost the database less and repeat more after a crash.",
		bind: func(c *Config) value { return intValue{&c.Relay.BatchSize, 1, 100_000} },
	},
	{
		Key: "relay.lock_ttl", Env: []string{"OUTBOX_RELAY_LOCK_TTL"}, Flag: "lock-ttl", Default: "15s",
		Help: "How long a crashed relay's work waits for another relay. Slow dispatches need no longer one.",
		bind: func(c *Config) value { return durationValue{&c.Relay.LockTTL, 100 * time.Millisecond} },
	},
	{
		Key: "relay.dispatch_timeout", Env: []string{"OUTBOX_RELAY_DISPATCH_TIMEOUT"}, Flag: "dispatch-timeout", Default: "30s",
		Help: "Longest time one dispatch may take.",
		bind: func(c *Config) value { return durationValue{&c.Relay.DispatchTimeout, time.Millisecond} },
	},
	{
		Key: "relay.drain_timeout", Env: []string{"OUTBOX_RELAY_DRAIN_TIMEOUT"}, Flag: "drain-timeout", Default: "30s",
		Help: "How long a stop waits for dispatches under way.",
		bind: func(c *Config) value { return durationValue{&c.Relay.DrainTimeout, time.Millisecond} },
	},
	{
		Key: "relay.concurrency", Env: []string{"OUTBOX_RELAY_CONCURRENCY"}, Flag: "concurrency", Default: "256",
		Help: "Dispatches that may run at once, for each route of a table.",
		bind: func(c *Config) value { return intValue{&c.Relay.Concurrency, 1, 100_000} },
	},
	{
		Key: "relay.on_dead", Env: []string{"OUTBOX_RELAY_ON_DEAD"}, Flag: "on-dead", Default: "block",
		Help: "What a dead message does to later ones of its key: `block` holds them, `skip` lets them go on.",
		bind: func(c *Config) value { return choiceValue{&c.Relay.OnDead, []string{"block", "skip"}} },
	},
	{
		Key: "relay.retry_preset", Env: []string{"OUTBOX_RELAY_RETRY_PRESET"}, Flag: "retry-preset", Default: "a",
		Help: "Retry schedule: `a` 25 attempts, 1s doubling to 60s; `b` 6, 2s to 30m; `c` 4, 1s to 1h; `d` 6, 30s to 1h.",
		bind: func(c *Config) value { return textValue{&c.Relay.RetryPreset} },
	},
	{
		Key: "relay.max_attempts", Env: []string{"OUTBOX_RELAY_MAX_ATTEMPTS"}, Flag: "max-attempts", Computed: "25, by preset",
		Help: "Dispatches that may fail before a message is dead. Outages of the destination cost none.",
		bind: func(c *Config) value { return intValue{&c.Relay.MaxAttempts, 1, 1_000_000} },
	},
	{
		Key: "relay.retry_base", Env: []string{"OUTBOX_RELAY_RETRY_BASE"}, Flag: "retry-base", Computed: "1s, by preset",
		Help: "Wait after the first failure; it doubles with each further one.",
		bind: func(c *Config) value { return durationValue{&c.Relay.RetryBase, time.Millisecond} },
	},
	{
		Key: "relay.retry_max", Env: []string{"OUTBOX_RELAY_RETRY_MAX"}, Flag: "retry-max", Computed: "1m, by preset",
		Help: "Longest wait between two attempts.",
		bind: func(c *Config) value { return durationValue{&c.Relay.RetryMax, time.Millisecond} },
	},
	{
		Key: "relay.last_error_max_bytes", Env: []string{"OUTBOX_LAST_ERROR_MAX_BYTES"}, Flag: "last-error-max-bytes", Default: "2048",
		Help: "Bound on a stored error text.",
		bind: func(c *Config) value { return intValue{&c.Relay.LastErrorMaxBytes, 64, 1 << 20} },
	},
	{
		Key: "cleaner.enabled", Env: []string{"OUTBOX_CLEANER_ENABLED"}, Flag: "cleaner", Default: "true",
		Help: "Delete published messages after their retention.",
		bind: func(c *Config) value { return boolValue{&c.Cleaner.Enabled} },
	},
	{
		Key: "cleaner.tables", Env: []string{"OUTBOX_CLEANER_TABLES"}, Flag: "cleaner-tables", Computed: "those of the relay",
		Help: "Tables to clean.",
		bind: func(c *Config) value { return listValue{&c.Cleaner.Tables} },
	},
	{
		Key: "cleaner.interval", Env: []string{"OUTBOX_CLEANER_INTERVAL"}, Flag: "cleaner-interval", Default: "1m",
		Help: "Time between two cleanings.",
		bind: func(c *Config) value { return durationValue{&c.Cleaner.Interval, time.Millisecond} },
	},
	{
		Key: "cleaner.retention", Env: []string{"OUTBOX_CLEANER_RETENTION"}, Flag: "retention", Default: "168h",
		Help: "How long published messages are kept. `0` deletes them when they are published: no history, no deduplication of later enqueues.",
		bind: func(c *Config) value { return durationValue{&c.Cleaner.Retention, 0} },
	},
	{
		Key: "cleaner.dead_retention", Env: []string{"OUTBOX_CLEANER_DEAD_RETENTION"}, Flag: "dead-retention", Default: "0",
		Help: "How long dead messages are kept after they died. `0` keeps them for ever.",
		bind: func(c *Config) value { return durationValue{&c.Cleaner.DeadRetention, 0} },
	},
	{
		Key: "admin.addr", Env: []string{"OUTBOX_ADMIN_ADDR"}, Flag: "admin",
		Help: "Address of the admin listener, such as `127.0.0.1:9464`: `/metrics`, `/healthz` and `/readyz`. It has no authentication; empty means none.",
		bind: func(c *Config) value { return textValue{&c.Admin.Addr} },
	},
	{
		Key: "console.addr", Env: []string{"OUTBOX_CONSOLE_ADDR"}, Flag: "console",
		Help: "`host:port` of the web console, on loopback. Empty: none. `outbox console` has more options.",
		bind: func(c *Config) value { return textValue{&c.Console.Addr} },
	},
	{
		Key: "console.users", Env: []string{"OUTBOX_CONSOLE_USERS"}, Flag: "console-users",
		Help: "File of the console's users, with hashed secrets. Without it a token is made at each start and printed once.",
		bind: func(c *Config) value { return textValue{&c.Console.Users} },
	},
	{
		Key: "metrics.enabled", Env: []string{"PROMETHEUS_METRICS_ENABLED"}, Flag: "metrics", Default: "false",
		Help: "Serve the metrics at `metrics.path` of the admin listener as well.",
		bind: func(c *Config) value { return boolValue{&c.Metrics.Enabled} },
	},
	{
		Key: "metrics.path", Env: []string{"PROMETHEUS_METRICS_PATH"}, Flag: "metrics-path", Default: "/debug/prometheus",
		Help: "The further path of the metrics.",
		bind: func(c *Config) value { return textValue{&c.Metrics.Path} },
	},
	{
		Key: "notify.url", Env: []string{"OUTBOX_NOTIFY_URL"}, Flag: "notify", Secret: true,
		Help: "Who is told when messages die: a destination like `sink`, such as the `https://` URL of a webhook. Empty means nobody.",
		bind: func(c *Config) value { return textValue{&c.Notify.URL} },
	},
	{
		Key: "notify.secret_file", Env: []string{"OUTBOX_NOTIFY_SECRET_FILE"}, Flag: "notify-secret-file", Computed: "`webhook.secret_file`",
		Help: "File with the secrets that sign these notifications.",
		bind: func(c *Config) value { return textValue{&c.Notify.SecretFile} },
	},
	{
		Key: "log.level", Env: []string{"OUTBOX_LOG_LEVEL"}, Flag: "log-level", Default: "info",
		Help: "`debug`, `info`, `warn` or `error`. Logs go to standard error.",
		bind: func(c *Config) value { return choiceValue{&c.Log.Level, []string{"debug", "info", "warn", "error"}} },
	},
	{
		Key: "log.format", Env: []string{"OUTBOX_LOG_FORMAT"}, Flag: "log-format", Default: "text",
		Help: "`text` or `json`.",
		bind: func(c *Config) value { return choiceValue{&c.Log.Format, []string{"text", "json"}} },
	},
	{
		Key: "log.mask_tenant", Env: []string{"OUTBOX_LOG_MASK_TENANT"}, Flag: "log-mask-tenant", Default: "false",
		Help: "Hide tenants in the log.",
		bind: func(c *Config) value { return boolValue{&c.Log.MaskTenant} },
	},
}
