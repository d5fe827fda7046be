package archtest

// module is the import path of this module.
const module = "github.com/go-outbox/outbox"

// root is how the table names package outbox itself.
const root = "."

// anything stands for every package of ours that is not for tests only and is
// not a command.
const anything = "*"

// uuid is in the root package's API, and linked with it. The contracts do
// without: they are the domain and the standard library only.
const uuid = "github.com/google/uuid"

// A rule says what the packages that match from may import besides the
// standard library. Patterns are those of path.Match.
type rule struct {
	from  string
	ours  []string // packages of this module
	third []string // modules, or parts of them; "*" is any
	tests []string // packages of ours that only the test files may import
}

// rules is the import table. The first match counts, and a package without a
// rule is an error: where it belongs is a decision.
var rules = []rule{
	{from: root, third: []string{uuid}},

	{from: "relay", ours: []string{root, "internal/failpoint"}, third: []string{uuid}},

	{from: "store/storetest", ours: []string{root}, third: []string{uuid}},
	{from: "store/memstore", ours: []string{root, "internal/bulk"}, third: []string{uuid}},
	// The driver is the application's choice: sqlitestore takes a *sql.DB.
	{from: "store/sqlitestore", ours: storeImports, third: []string{uuid}},
	{from: "store/pgstore", ours: storeImports, third: []string{uuid, "github.com/jackc/pgx/v5", "github.com/jackc/pglogrepl"}},
	// Its tests let relays and producers fight over locks.
	{
		from: "store/mysqlstore", ours: storeImports, third: []string{uuid, "github.com/go-sql-driver/mysql"},
		tests: []string{"relay"},
	},
	// Its tests prove that it writes the same rows as the plain stores.
	{
		from: "store/gormstore", ours: storeImports, third: []string{uuid, "gorm.io/gorm"},
		tests: []string{"store/pgstore", "store/mysqlstore", "store/sqlitestore", "relay", "compat"},
	},

	{from: "sink", ours: []string{root, "internal/wire"}, third: []string{uuid}},
	{from: "sink/sinktest", ours: []string{root}},
	{from: "sink/writersink", ours: []string{root}, third: []string{uuid}},
	{from: "sink/bussink", ours: []string{root, "eventbus"}, third: []string{uuid}},
	{from: "sink/webhooksink", ours: []string{root, "webhook", "internal/wire"}, third: []string{uuid}},
	{from: "sink/kafkasink", ours: []string{root, "internal/wire"}, third: []string{uuid, "github.com/twmb/franz-go"}},
	{from: "sink/natssink", ours: []string{root, "internal/wire"}, third: []string{uuid, "github.com/nats-io/nats.go"}},
	{from: "sink/rabbitsink", ours: []string{root, "internal/wire"}, third: []string{uuid, "github.com/rabbitmq/amqp091-go"}},
	{from: "sink/redissink", ours: []string{root, "internal/wire"}, third: []string{uuid, "github.com/redis/go-redis/v9"}},

	{from: "eventbus"},
	{from: "webhook", ours: []string{root, "internal/wire"}, third: []string{uuid}},
	{
		from: "inbox", ours: []string{root, "inbox/internal/mark", "internal/migrate"}, third: []string{uuid},
		tests: []string{"inbox/pginbox"},
	},
	{from: "inbox/internal/mark", ours: []string{root, "internal/sqlfile"}, third: []string{uuid}},
	{from: "inbox/pginbox", ours: []string{root, "inbox", "inbox/internal/mark"}, third: []string{uuid, "github.com/jackc/pgx/v5"}},
	{from: "inbox/redisguard", ours: []string{root}, third: []string{uuid, "github.com/redis/go-redis/v9"}},
	{from: "contract", ours: []string{root}, third: []string{uuid, "github.com/santhosh-tekuri/jsonschema/v6"}},
	{from: "compat", ours: []string{root}, third: []string{uuid}},
	{from: "outboxtest", ours: []string{root, "relay", "store/memstore"}, third: []string{uuid}},

	{
		from: "metrics", ours: []string{root, "relay"}, third: []string{uuid, "github.com/prometheus"},
		tests: []string{"store/pgstore", "store/sqlitestore"},
	},
	{from: "otelhooks", ours: []string{root, "relay"}, third: []string{uuid, "go.opentelemetry.io"}},
	{from: "notify", ours: []string{root, "relay"}, third: []string{uuid}, tests: []string{"sink/webhooksink", "webhook"}},
	{from: "ops", ours: []string{root}, third: []string{uuid}},
	{from: "console", ours: []string{root, "ops", "internal/wire"}, third: []string{uuid}},

	{from: "outboxvet", third: []string{"golang.org/x/tools"}},
	{from: "cmd/outboxvet", ours: []string{"outboxvet"}, third: []string{"golang.org/x/tools"}},

	{from: "cmd/outbox", ours: []string{anything}, third: []string{"*"}},
	{from: "examples/*", ours: []string{anything}, third: []string{"*"}},

	{from: "internal/sqlfile"},
	{from: "internal/migrate", ours: []string{"internal/sqlfile", "internal/failpoint"}},
	{from: "config", ours: []string{root, "compat", "relay"}, third: []string{"go.yaml.in/yaml/v3"}},
	{from: "internal/doctest"},
	{from: "internal/e2e", ours: []string{anything}, third: []string{"*"}},
	{from: "internal/browsertest", ours: []string{anything}, third: []string{"*"}},
	{from: "internal/browsertest/cmd/shots", ours: []string{anything, "internal/browsertest"}, third: []string{"*"}},

	{from: "internal/bulk", ours: []string{root}, third: []string{uuid}},
	{from: "internal/failpoint"},
	{from: "internal/wire", ours: []string{root}, third: []string{uuid}},

	{from: "internal/archtest"},
	{from: "internal/check", ours: []string{root}},
	{from: "internal/testenv", third: []string{
		"github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "github.com/Shopify/toxiproxy/v2", "github.com/twmb/franz-go",
		"github.com/nats-io", "github.com/redis/go-redis/v9", "github.com/rabbitmq/amqp091-go",
	}},
	{from: "internal/testenv/cmd/testenv", ours: []string{"internal/testenv"}},
	{from: "internal/explore", ours: []string{anything}, third: []string{"*"}},
	{from: "internal/torture", ours: []string{anything}, third: []string{"*"}},
	{from: "internal/torture/cmd/*", ours: []string{anything, "internal/torture", "internal/torture/mutants", "internal/testenv"}, third: []string{"*"}},
	{from: "internal/torture/mutants", ours: []string{anything}},
}

var storeImports = []string{root, "internal/sqlfile", "internal/migrate", "internal/bulk", "internal/failpoint"}

// testOnly are the packages that no program may link. Test files may import
// them all, from anywhere.
var testOnly = []string{
	"outboxtest", "store/storetest", "sink/sinktest",
	"internal/testenv", "internal/archtest", "internal/check", "internal/torture", "internal/torture/cmd/torture", "internal/torture/cmd/mutants", "internal/torture/mutants",
	"internal/explore", "internal/e2e",
	"internal/browsertest", "internal/browsertest/cmd/shots",
}

// testsMayUse are ordinary packages that every test file may import: the engine
// is tested over the in-memory store.
var testsMayUse = []string{"store/memstore"}

// goroutineOwners are the files that may start goroutines. Whoever is listed
// waits for what it starts.
var goroutineOwners = []string{
	"sink/router.go", // the routes of a batch run side by side
	"sink/rabbitsink/link.go",
	"relay/*.go",
	"store/pgstore/listen.go",
	"console/jobs.go",
	"internal/browsertest/*.go",
	"cmd/outbox/*.go",
	"examples/*/*.go",
	"internal/testenv/*.go",
	"internal/failpoint/on.go", // ends with the process, as a harness wants
	"internal/torture/*.go",
	"internal/torture/cmd/torture/*.go",
	"store/storetest/*.go", // concurrency is part of the contracts
	"sink/sinktest/*.go",
	"outboxtest/*.go",
}

// contextTypes are the files whose struct is itself a context.
var contextTypes = []string{"relay/deadline.go", "internal/torture/cmd/torture/scene.go"}

// programs say which modules a program links that imports some of our packages.
var programs = []struct {
	name     string
	packages []string
	links    []string // modules besides ours
}{
	{"the domain alone", []string{root}, []string{uuid}},
	{"the engine alone", []string{root, "relay"}, []string{uuid}},
	{"the event bus alone", []string{"eventbus"}, nil},
	{"sqlite without a driver", []string{"store/sqlitestore", "relay"}, []string{uuid}},
	{"postgres", []string{"store/pgstore", "relay"}, append([]string{uuid}, pgxModules...)},
	{"mysql", []string{"store/mysqlstore", "relay"}, []string{uuid, "github.com/go-sql-driver/mysql", "filippo.io/edwards25519"}},
	{"the store contract", []string{"store/storetest"}, []string{uuid}},
	{"the sink contract", []string{"sink/sinktest"}, []string{uuid}},
}

var pgxModules = []string{
	"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile",
	"github.com/jackc/puddle/v2", "golang.org/x/sync", "golang.org/x/text",
}
