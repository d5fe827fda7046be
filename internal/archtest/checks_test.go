package archtest

import (
	"strings"
	"testing"
)

// The checks are themselves checked: a guard that cannot fail guards nothing.
func TestImportCheckFindsForbiddenArrows(t *testing.T) {
	const us = module
	tests := []struct {
		name, file, imported string
		allowed              bool
	}{
		{"root uses the standard library", "message.go", "time", true},
		{"root uses uuid", "message.go", "github.com/google/uuid", true},
		{"root knows no driver", "message.go", "github.com/jackc/pgx/v5", false},
		{"root knows nothing of ours", "message.go", us + "/relay", false},
		{"a store uses the domain", "store/pgstore/store.go", us, true},
		{"a store uses its client", "store/pgstore/store.go", "github.com/jackc/pgx/v5/pgxpool", true},
		{"a store uses no look-alike of its client", "store/pgstore/store.go", "github.com/jackc/pgx/v5x", false},
		{"a store uses no other store", "store/gormstore/store.go", us + "/store/pgstore", false},
		{"a store's test may, where listed", "store/gormstore/same_test.go", us + "/store/pgstore", true},
		{"a store uses no sink", "store/pgstore/store.go", us + "/sink", false},
		{"the engine uses no store", "relay/relay.go", us + "/store/memstore", false},
		{"the engine's test uses the memory store", "relay/relay_test.go", us + "/store/memstore", true},
		{"the engine's test uses no other store", "relay/relay_test.go", us + "/store/pgstore", false},
		{"an example shows packages together", "relay/example_test.go", us + "/store/pgstore", true},
		{"an example shows no internals", "relay/example_test.go", us + "/internal/config", false},
		{"production code links no test package", "cmd/outbox/demo.go", us + "/outboxtest", false},
		{"production code links no test servers", "cmd/outbox/demo.go", us + "/internal/testenv", false},
		{"the program uses anything else", "cmd/outbox/open.go", us + "/store/pgstore", true},
		{"nothing imports the program", "examples/shop/main.go", us + "/cmd/outbox", false},
		{"a contract uses no test library", "store/storetest/claim.go", "github.com/stretchr/testify/require", false},
		{"test files use test libraries", "store/pgstore/store_test.go", "pgregory.net/rapid", true},
		{"a package without a rule uses nothing", "newcomer/file.go", "time", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := mustParse(t, tt.file, `import "`+tt.imported+`"`)
			if got := len(f.imports()) == 0; got != tt.allowed {
				t.Errorf("allowed = %v, want %v: %v", got, tt.allowed, f.imports())
			}
		})
	}
}

func TestGoroutineCheckFindsStrangers(t *testing.T) {
	tests := []struct {
		name, file, body string
		allowed          bool
	}{
		{"owner", "relay/relay.go", "go f()", true},
		{"stranger", "store/pgstore/claim.go", "go f()", false},
		{"wait group", "store/pgstore/claim.go", "wg.Go(f)", false},
		{"nested in a function literal", "eventbus/bus.go", "_ = func() { go f() }", false},
		{"test file", "eventbus/bus_test.go", "go f()", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := mustParse(t, tt.file, "func g() { "+tt.body+" }")
			if got := len(f.goroutines()) == 0; got != tt.allowed {
				t.Errorf("allowed = %v, want %v", got, tt.allowed)
			}
		})
	}
}

func TestContextCheckFindsFields(t *testing.T) {
	tests := []struct {
		name, decl string
		allowed    bool
	}{
		{"named", "type s struct { ctx context.Context }", false},
		{"embedded", "type s struct { context.Context }", false},
		{"anonymous struct", "var s struct { ctx *context.Context }", false},
		{"parameter of a hook", "type s struct { Hook func(context.Context) }", true},
		{"parameter", "func f(ctx context.Context) {}", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := len(mustParse(t, "relay/x.go", tt.decl).contexts()) == 0; got != tt.allowed {
				t.Errorf("allowed = %v, want %v", got, tt.allowed)
			}
		})
	}
}

func TestViolationsSayWhere(t *testing.T) {
	f := mustParse(t, "relay/relay.go", `import "github.com/jackc/pgx/v5"`)
	got := strings.Join(f.imports(), "\n")
	if want := "relay/relay.go:2: relay may not import github.com/jackc/pgx/v5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func mustParse(t *testing.T, name, decl string) source {
	t.Helper()
	f, err := parse(name, "package p\n"+decl)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
