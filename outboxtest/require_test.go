package outboxtest_test

import (
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/outboxtest"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestRequireEnqueuedFindsTheOneMessage(t *testing.T) {
	var recorder outboxtest.Recorder
	store, err := memstore.New(memstore.Config{Gate: recorder.Gate(outbox.Gate{})})
	if err != nil {
		t.Fatal(err)
	}
	tx := store.Begin()
	for _, msg := range []outbox.Message{
		{
			Topic: "shop.order.placed.v1", Key: "order-1", TenantID: "acme", Headers: map[string]string{"source": "web"},
			Payload: []byte(`{"customer":{"id":9007199254740993},"lines":[{"sku":"TEA"}],"a/b":null}`),
		},
		{Topic: "shop.order.placed.v1", Key: "order-2", Payload: []byte(`{}`)},
		{Topic: "shop.order.paid.v1", Key: "order-1", Payload: []byte(`[1]`)},
	} {
		if _, err := store.Enqueue(t.Context(), tx, msg); err != nil {
			t.Fatal(err)
		}
	}
	for _, open := range []bool{true, false} {
		from := outboxtest.Source(&recorder)
		if !open {
			from = store
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		got := outboxtest.RequireEnqueued(t, from, "shop.order.placed.v1",
			outboxtest.Key("order-1"), outboxtest.Tenant("acme"), outboxtest.Header("source", "web"),
			outboxtest.Field("/customer/id", int64(9007199254740993)), outboxtest.Field("/lines/0/sku", "TEA"),
			outboxtest.Field("/a~1b", nil),
			outboxtest.JSON(`{"lines": [{"sku": "TEA"}], "customer": {"id": 9007199254740993}, "a/b": null}`),
			outboxtest.Where(func(r *outbox.Record) bool { return r.EventVersion == 1 }),
		)
		if got.Key != "order-1" || len(got.Payload) == 0 {
			t.Errorf("got %+v", got)
		}
		outboxtest.RequireNotEnqueued(t, from, "shop.order.placed.v1", outboxtest.Key("order-3"))
		if n := len(outboxtest.Enqueued(t, from, "shop.**")); n != 3 {
			t.Errorf("%d messages, want 3", n)
		}
	}
}

func TestRequireEnqueuedSaysWhyNothingMatches(t *testing.T) {
	o := outboxtest.New(t, outboxtest.Config{})
	place(t, o, "order-1", 1)
	place(t, o, "order-2", 2)
	const topic = "shop.order.placed.v1"
	for want, matches := range map[string][]outboxtest.Match{
		`key is "order-2", want "order-9"`:      {outboxtest.Key("order-9")},
		`payload/n is 1, want 7`:                {outboxtest.Field("/n", 7)},
		`the payload has no /customer/id`:       {outboxtest.Field("/customer/id", 7)},
		`the wanted value is not JSON`:          {outboxtest.JSON(`{`)},
		`header source is "", want "web"`:       {outboxtest.Header("source", "web")},
		`0 messages of ` + topic + ` match`:     {outboxtest.Where(func(*outbox.Record) bool { return false })},
		`2 messages of ` + topic + ` match`:     nil,
		`tenant is "", want "acme"`:             {outboxtest.Key("order-1"), outboxtest.Tenant("acme")},
		`payload is map[n:1 total:1], want map`: {outboxtest.JSON(`{}`)},
	} {
		text := failure(t, func(f testing.TB) { outboxtest.RequireEnqueued(f, o.Store, topic, matches...) })
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	text := failure(t, func(f testing.TB) { outboxtest.RequireNotEnqueued(f, o.Store, topic, outboxtest.Key("order-1")) })
	if !strings.Contains(text, "1 messages of "+topic+" match, want none") {
		t.Errorf("got %q", text)
	}
}

func TestARecorderKeepsWhatPassedAndNotWhatWasRefused(t *testing.T) {
	var recorder outboxtest.Recorder
	o := outboxtest.New(t, outboxtest.Config{Gate: recorder.Gate(outbox.Gate{})})
	if _, err := o.Store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: "Bad Topic", Payload: []byte(`{}`)}); err == nil {
		t.Fatal("a bad topic passed")
	}
	place(t, o, "order-1", 1)
	if n := len(outboxtest.Enqueued(t, &recorder, "**")); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	recorder.Reset()
	if n := len(outboxtest.Enqueued(t, &recorder, "**")); n != 0 {
		t.Errorf("%d messages after Reset, want 0", n)
	}
}

func TestMoreThanAPageIsSearched(t *testing.T) {
	o := outboxtest.New(t, outboxtest.Config{})
	for i := range outbox.MaxPage + 50 {
		place(t, o, "", i)
	}
	outboxtest.RequireEnqueued(t, o.Store, "shop.order.placed.v1", outboxtest.Field("/n", outbox.MaxPage+49))
}
