package outboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Source is where messages are looked for: a store, which shows what is committed, or
// a [Recorder], which shows what passed the gate.
type Source interface {
	List(ctx context.Context, f outbox.Filter) (outbox.List, error)
	Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error)
}

// A Match says what is wrong with a message, or nil.
type Match func(*outbox.Record) error

// RequireEnqueued returns the one message of a topic that satisfies every match. It
// fails the test when there is none, or more than one.
func RequireEnqueued(t testing.TB, from Source, topic string, matches ...Match) *outbox.Record {
	t.Helper()
	found, others := search(t, from, topic, matches)
	if len(found) != 1 {
		t.Fatalf("%d messages of %s match, want 1%s", len(found), topic, strings.Join(others, ""))
		return nil
	}
	return found[0]
}

// RequireNotEnqueued fails the test when a message of a topic satisfies every match.
func RequireNotEnqueued(t testing.TB, from Source, topic string, matches ...Match) {
	t.Helper()
	if found, _ := search(t, from, topic, matches); len(found) > 0 {
		t.Fatalf("%d messages of %s match, want none; the first is %s", len(found), topic, found[0].EventID)
	}
}

// Enqueued returns the messages of a topic that satisfy every match, oldest first.
func Enqueued(t testing.TB, from Source, topic string, matches ...Match) []*outbox.Record {
	t.Helper()
	found, _ := search(t, from, topic, matches)
	return found
}

// search also says why the other messages of the topic do not match.
func search(t testing.TB, from Source, topic string, matches []Match) (found []*outbox.Record, others []string) {
	t.Helper()
	records, err := all(t.Context(), from, outbox.Filter{Topic: topic})
	if err != nil {
		t.Fatalf("list %s: %v", topic, err)
	}
	for _, r := range records {
		full, err := from.Get(t.Context(), r.EventID) // lists have no payloads
		if err != nil {
			t.Fatalf("get %s: %v", r.EventID, err)
		}
		if err := mismatch(full, matches); err != nil {
			others = append(others, fmt.Sprintf("\n\t%s of %q: %v", full.EventID, full.Key, err))
			continue
		}
		found = append(found, full)
	}
	return found, others
}

func mismatch(r *outbox.Record, matches []Match) error {
	for _, m := range matches {
		if err := m(r); err != nil {
			return err
		}
	}
	return nil
}

// all lists every page, oldest first.
func all(ctx context.Context, from interface {
	List(ctx context.Context, f outbox.Filter) (outbox.List, error)
}, f outbox.Filter,
) ([]*outbox.Record, error) {
	f.OldestFirst, f.Limit = true, outbox.MaxPage
	var records []*outbox.Record
	for {
		page, err := from.List(ctx, f)
		if err != nil {
			return nil, err
		}
		records = append(records, page.Records...)
		if page.Next == 0 {
			return records, nil
		}
		f.After = page.Next
	}
}

// Key matches messages with this key.
func Key(key string) Match {
	return func(r *outbox.Record) error { return same("key", r.Key, key) }
}

// Tenant matches messages of this tenant.
func Tenant(id string) Match {
	return func(r *outbox.Record) error { return same("tenant", r.TenantID, id) }
}

// Header matches messages with this header.
func Header(name, value string) Match {
	return func(r *outbox.Record) error { return same("header "+name, r.Headers[name], value) }
}

// Where matches messages for which ok holds.
func Where(ok func(*outbox.Record) bool) Match {
	return func(r *outbox.Record) error {
		if !ok(r) {
			return fmt.Errorf("the condition does not hold")
		}
		return nil
	}
}

// JSON matches messages with this payload, whatever its spaces and the order of its
// fields.
func JSON(want string) Match { return Field("", json.RawMessage(want)) }

// Field matches messages whose payload has this value in one place, given as a JSON
// pointer such as /customer/id or /lines/0/sku. The value is compared as JSON.
func Field(path string, want any) Match {
	return func(r *outbox.Record) error {
		expected, err := normal(want)
		if err != nil {
			return fmt.Errorf("the wanted value is not JSON: %w", err)
		}
		doc, err := normal(json.RawMessage(r.Payload))
		if err != nil {
			return fmt.Errorf("the payload is not JSON: %w", err)
		}
		got, ok := lookUp(doc, path)
		if !ok {
			return fmt.Errorf("the payload has no %s", path)
		}
		if !reflect.DeepEqual(got, expected) {
			return fmt.Errorf("payload%s is %v, want %v", path, got, expected)
		}
		return nil
	}
}

// normal is a value after a round trip through JSON, its numbers as they are written.
func normal(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var doc any
	err = dec.Decode(&doc)
	return doc, err
}

func lookUp(doc any, path string) (any, bool) {
	if path == "" {
		return doc, true
	}
	name, rest, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if more {
		rest = "/" + rest
	}
	name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	switch doc := doc.(type) {
	case map[string]any:
		if v, ok := doc[name]; ok {
			return lookUp(v, rest)
		}
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(doc) {
			return lookUp(doc[i], rest)
		}
	}
	return nil, false
}

func same(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %q, want %q", what, got, want)
	}
	return nil
}
