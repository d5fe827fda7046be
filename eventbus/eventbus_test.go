package eventbus_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-outbox/outbox/eventbus"
)

type meta struct{ EventID string }

type paid struct{ Amount int }

type shipped struct{}

func (shipped) String() string { return "shipped" }

var errDeclined = errors.New("card declined")

func subscribe(t testing.TB, b *eventbus.Bus, handler any) (unsubscribe func()) {
	t.Helper()
	unsubscribe, err := b.Subscribe(handler)
	if err != nil {
		t.Fatalf("Subscribe(%T): %v", handler, err)
	}
	return unsubscribe
}

// codeOf returns the code of the first coded error in err's tree.
func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

func TestPublishE(t *testing.T) {
	t.Run("runs_every_matching_handler_in_subscription_order", func(t *testing.T) {
		b := eventbus.New()
		var ran []string
		subscribe(t, b, func(*meta, *paid) { ran = append(ran, "no result") })
		subscribe(t, b, func(*meta, *shipped) error { ran = append(ran, "other event"); return nil })
		subscribe(t, b, func(m *meta, e *paid) error {
			ran = append(ran, fmt.Sprintf("%s %d", m.EventID, e.Amount))
			return nil
		})
		subscribe(t, b, func(any, any) error { ran = append(ran, "any"); return nil })

		err := b.PublishE(&meta{EventID: "e1"}, &paid{Amount: 42})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"no result", "e1 42", "any"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
	})

	// R-A40: no matching subscriber.
	t.Run("without_a_matching_handler_returns_ErrNoSubscribers", func(t *testing.T) {
		b := eventbus.New()
		if err := b.PublishE(&paid{}); !errors.Is(err, eventbus.ErrNoSubscribers) {
			t.Errorf("empty bus: got %v", err)
		}
		subscribe(t, b, func(*shipped) error { return nil })

		err := b.PublishE(&paid{Amount: 4242})

		if !errors.Is(err, eventbus.ErrNoSubscribers) {
			t.Errorf("no match: got %v", err)
		}
		if got := codeOf(err); got != "EVENTBUS_NO_SUBSCRIBERS" {
			t.Errorf("code %q", got)
		}
		if got, want := err.Error(), "publish (*eventbus_test.paid): no subscribers"; got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	})

	// R-A40: a handler panics.
	t.Run("returns_a_panic_as_an_error_without_the_stack_in_its_text", func(t *testing.T) {
		b := eventbus.New()
		subscribe(t, b, panicsOnPaid)

		err := b.PublishE(&paid{})

		var p *eventbus.PanicError
		if !errors.As(err, &p) {
			t.Fatalf("got %v, want a *PanicError", err)
		}
		if p.Value != "ledger closed" || !bytes.Contains(p.Stack, []byte("panicsOnPaid")) {
			t.Errorf("value %v, stack:\n%s", p.Value, p.Stack)
		}
		if got := codeOf(err); got != "EVENTBUS_HANDLER_PANIC" {
			t.Errorf("code %q", got)
		}
		if got, want := err.Error(), "handler eventbus_test.panicsOnPaid: panic: ledger closed"; got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	})

	t.Run("a_panic_with_an_error_can_be_recognised", func(t *testing.T) {
		b := eventbus.New()
		subscribe(t, b, func(*paid) { panic(errDeclined) })

		if err := b.PublishE(&paid{}); !errors.Is(err, errDeclined) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a_panic_with_nil_is_not_success", func(t *testing.T) {
		t.Setenv("GODEBUG", "panicnil=1")
		b := eventbus.New()
		subscribe(t, b, func(*paid) { panic(nil) })

		var p *eventbus.PanicError
		if err := b.PublishE(&paid{}); !errors.As(err, &p) {
			t.Errorf("got %v, want a *PanicError", err)
		}
	})

	// R-A40: a handler returns an error.
	t.Run("returns_a_handlers_error", func(t *testing.T) {
		b := eventbus.New()
		subscribe(t, b, func(*paid) error { return errDeclined })

		err := b.PublishE(&paid{})

		if !errors.Is(err, errDeclined) {
			t.Errorf("got %v", err)
		}
		if errors.Is(err, eventbus.ErrNoSubscribers) {
			t.Error("a failed handler looks like a missing one")
		}
	})

	// R-A40: failures of several handlers are joined and stop nobody.
	t.Run("joins_all_failures_and_runs_the_remaining_handlers", func(t *testing.T) {
		b := eventbus.New()
		errSecond := errors.New("second")
		reached := false
		subscribe(t, b, func(*paid) error { return errDeclined })
		subscribe(t, b, func(*paid) int { return 0 })
		subscribe(t, b, panicsOnPaid)
		subscribe(t, b, func(*paid) error { return errSecond })
		subscribe(t, b, func(*paid) { reached = true })

		err := b.PublishE(&paid{})

		var p *eventbus.PanicError
		if !errors.Is(err, errDeclined) || !errors.Is(err, errSecond) || !errors.As(err, &p) ||
			!errors.Is(err, eventbus.ErrInvalidHandlerReturn) {
			t.Errorf("incomplete error: %v", err)
		}
		if !reached {
			t.Error("the last handler did not run")
		}
	})
}

func panicsOnPaid(*paid) error { panic("ledger closed") }

type concreteError struct{}

func (*concreteError) Error() string { return "concrete" }

// R-A41: a handler whose outcome cannot be known never looks like success.
func TestPublishE_refuses_a_handler_that_returns_anything_but_nothing_or_one_error(t *testing.T) {
	ran := false
	tests := []struct {
		name    string
		handler any
	}{
		{"a value", func(*paid) int { ran = true; return 0 }},
		{"a value and an error", func(*paid) (int, error) { ran = true; return 0, nil }},
		{"two errors", func(*paid) (error, error) { ran = true; return nil, nil }},
		{"a concrete error type", func(*paid) *concreteError { ran = true; return nil }},
		{"any", func(*paid) any { ran = true; return nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := eventbus.New()
			subscribe(t, b, func(*paid) error { return nil })
			subscribe(t, b, tt.handler)

			err := b.PublishE(&paid{})

			if !errors.Is(err, eventbus.ErrInvalidHandlerReturn) {
				t.Errorf("got %v", err)
			}
			if got := codeOf(err); got != "EVENTBUS_INVALID_HANDLER_RETURN" {
				t.Errorf("code %q", got)
			}
			if want := fmt.Sprintf("%T", tt.handler); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("text %q does not show the type %s", err, want)
			}
			if ran {
				t.Error("the handler ran")
			}
			if err := b.PublishE(&shipped{}); errors.Is(err, eventbus.ErrInvalidHandlerReturn) {
				t.Errorf("other publications fail too: %v", err)
			}
		})
	}
}

func TestHandlers_match_by_count_and_assignability(t *testing.T) {
	type named []int
	var untyped any
	var nilPaid *paid
	tests := []struct {
		name    string
		handler any
		args    []any
		want    bool
	}{
		{"no arguments", func() {}, nil, true},
		{"same types", func(*meta, *paid) {}, []any{&meta{}, &paid{}}, true},
		{"too few arguments", func(*meta, *paid) {}, []any{&meta{}}, false},
		{"too many arguments", func(*meta) {}, []any{&meta{}, &paid{}}, false},
		{"wrong order", func(*meta, *paid) {}, []any{&paid{}, &meta{}}, false},
		{"value for pointer", func(*paid) {}, []any{paid{}}, false},
		{"pointer for value", func(paid) {}, []any{&paid{}}, false},
		{"implemented interface", func(fmt.Stringer) {}, []any{shipped{}}, true},
		{"interface not implemented", func(fmt.Stringer) {}, []any{paid{}}, false},
		{"unnamed for named type", func(named) {}, []any{[]int{1}}, true},
		{"convertible but not assignable", func(int64) {}, []any{int32(1)}, false},
		{"typed nil for its type", func(*paid) {}, []any{nilPaid}, true},
		{"typed nil for another type", func(*meta) {}, []any{nilPaid}, false},
		{"typed nil for any", func(any) {}, []any{nilPaid}, true},
		{"nil for pointer", func(*meta, *paid) {}, []any{untyped, &paid{}}, true},
		{"nil for interface", func(error) {}, []any{untyped}, true},
		{"nil for slice", func([]int) {}, []any{untyped}, true},
		{"nil for struct", func(paid) {}, []any{untyped}, false},
		{"nil for string", func(string) {}, []any{untyped}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := eventbus.New()
			subscribe(t, b, tt.handler)

			err := b.PublishE(tt.args...)

			if tt.want && err != nil {
				t.Errorf("got %v, want a match", err)
			}
			if !tt.want && !errors.Is(err, eventbus.ErrNoSubscribers) {
				t.Errorf("got %v, want no match", err)
			}
		})
	}
}

func TestNil_arrives_as_the_nil_of_each_parameters_type(t *testing.T) {
	b := eventbus.New()
	var nilPaid *paid
	subscribe(t, b, func(m *meta, e *paid) error {
		if m != nil || e != nil {
			return fmt.Errorf("pointers: got %v, %v", m, e)
		}
		return nil
	})
	subscribe(t, b, func(m, e any) error {
		if p, ok := e.(*paid); m != nil || !ok || p != nil {
			return fmt.Errorf("interfaces: got %#v, %#v", m, e)
		}
		return nil
	})

	if err := b.PublishE(nil, nilPaid); err != nil {
		t.Error(err)
	}
}

func TestSubscribe_refuses_what_it_could_never_call(t *testing.T) {
	var nilFunc func(*paid) error
	tests := []struct {
		name    string
		handler any
	}{
		{"nil", nil},
		{"nil function", nilFunc},
		{"not a function", "handler"},
		{"pointer to a function", new(func())},
		{"variadic", func(...*paid) error { return nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := eventbus.New()

			unsubscribe, err := b.Subscribe(tt.handler)

			if !errors.Is(err, eventbus.ErrInvalidHandler) || codeOf(err) != "EVENTBUS_INVALID_HANDLER" {
				t.Errorf("got %v, code %q", err, codeOf(err))
			}
			if unsubscribe != nil {
				t.Error("unsubscribe is not nil")
			}
			if err := b.PublishE(&paid{}); !errors.Is(err, eventbus.ErrNoSubscribers) {
				t.Errorf("something was subscribed: %v", err)
			}
		})
	}
}

func TestUnsubscribe(t *testing.T) {
	t.Run("removes_one_subscription_however_often_it_is_called", func(t *testing.T) {
		b := eventbus.New()
		count := 0
		handler := func(*paid) { count++ }
		unsubscribe := subscribe(t, b, handler)
		subscribe(t, b, handler)

		unsubscribe()
		unsubscribe()

		if err := b.PublishE(&paid{}); err != nil || count != 1 {
			t.Errorf("ran %d times, want once; error %v", count, err)
		}
	})

	t.Run("leaves_no_handler_behind", func(t *testing.T) {
		b := eventbus.New()

		subscribe(t, b, func(*paid) {})()

		if err := b.PublishE(&paid{}); !errors.Is(err, eventbus.ErrNoSubscribers) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPublish(t *testing.T) {
	t.Run("survives_errors_panics_and_the_lack_of_handlers", func(t *testing.T) {
		var b eventbus.Bus
		b.Publish(&paid{})
		reached := false
		subscribe(t, &b, func(*paid) error { return errDeclined })
		subscribe(t, &b, panicsOnPaid)
		subscribe(t, &b, func(*paid) { reached = true })

		b.Publish(&paid{})

		if !reached {
			t.Error("the last handler did not run")
		}
	})

	t.Run("reports_errors_but_not_the_lack_of_handlers", func(t *testing.T) {
		var reported []error
		b := eventbus.NewWithReport(func(err error) { reported = append(reported, err) })
		b.Publish(&paid{})
		b.Publish(&shipped{})
		subscribe(t, b, func(*paid) error { return errDeclined })

		b.Publish(&paid{})
		b.Publish(&shipped{})

		if len(reported) != 1 || !errors.Is(reported[0], errDeclined) {
			t.Errorf("reported %v", reported)
		}
	})
}

func TestHandlers_may_use_the_bus_that_runs_them(t *testing.T) {
	b := eventbus.New()
	late, nested := 0, 0
	subscribe(t, b, func(*shipped) { nested++ })
	var unsubscribe func()
	unsubscribe = subscribe(t, b, func(*paid) error {
		unsubscribe()
		if _, err := b.Subscribe(func(*paid) { late++ }); err != nil {
			return err
		}
		return b.PublishE(&shipped{})
	})

	if err := b.PublishE(&paid{}); err != nil {
		t.Fatal(err)
	}
	if nested != 1 || late != 0 {
		t.Errorf("nested %d, late %d: want the new handler to wait for the next publication", nested, late)
	}

	if err := b.PublishE(&paid{}); err != nil {
		t.Fatal(err)
	}
	if nested != 1 || late != 1 {
		t.Errorf("nested %d, late %d: want only the new handler to run", nested, late)
	}
}

func TestA_permanent_handler_misses_nothing_while_others_come_and_go(t *testing.T) {
	const publishers, rounds = 4, 200
	b := eventbus.New()
	var received atomic.Int64
	subscribe(t, b, func(*paid) { received.Add(1) })

	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			for range rounds {
				if err := b.PublishE(&paid{}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				unsubscribe, err := b.Subscribe(func(*paid) error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				unsubscribe()
			}
		})
	}
	wg.Wait()

	if got := received.Load(); got != publishers*rounds {
		t.Errorf("received %d, want %d", got, publishers*rounds)
	}
}

func BenchmarkPublishE_one_subscriber(b *testing.B) {
	bus := eventbus.New()
	subscribe(b, bus, func(*meta, *paid) error { return nil })
	m, e := &meta{}, &paid{}

	b.ReportAllocs()
	for b.Loop() {
		if err := bus.PublishE(m, e); err != nil {
			b.Fatal(err)
		}
	}
}
