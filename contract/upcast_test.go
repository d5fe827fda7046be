package contract_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contract"
)

func TestOldVersionsAreLiftedToTheNewest(t *testing.T) {
	var u contract.Upcasters
	for v := 1; v <= 2; v++ {
		step := func(p []byte) ([]byte, error) { return fmt.Appendf(nil, "%s>%d", p, v+1), nil }
		if err := u.Add(fmt.Sprintf("shop.order.placed.v%d", v), step); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		topic   string
		version int
		want    contract.Event
	}{
		{"shop.order.placed.v1", 1, contract.Event{Topic: "shop.order.placed.v3", Version: 3, Payload: []byte("p>2>3")}},
		{"shop.order.placed.v2", 0, contract.Event{Topic: "shop.order.placed.v3", Version: 3, Payload: []byte("p>3")}},
		{"shop.order.placed.v3", 3, contract.Event{Topic: "shop.order.placed.v3", Version: 3, Payload: []byte("p")}},
		{"shop.order.placed", 1, contract.Event{Topic: "shop.order.placed", Version: 3, Payload: []byte("p>2>3")}},
		{"shop.order.paid.v1", 1, contract.Event{Topic: "shop.order.paid.v1", Version: 1, Payload: []byte("p")}},
	} {
		got, err := u.Upcast(c.topic, c.version, []byte("p"))
		if err != nil || got.Topic != c.want.Topic || got.Version != c.want.Version || !bytes.Equal(got.Payload, c.want.Payload) {
			t.Errorf("%s v%d: got %+v, %v; want %+v", c.topic, c.version, got, err, c.want)
		}
	}
}

func TestAStepThatFailsFailsTheEvent(t *testing.T) {
	broken := errors.New("broken")
	var u contract.Upcasters
	if err := u.Add("shop.order.placed.v1", func([]byte) ([]byte, error) { return nil, broken }); err != nil {
		t.Fatal(err)
	}
	if err := u.Add("shop.order.paid.v1", func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if e, err := u.Upcast("shop.order.placed.v1", 1, []byte(`{}`)); !errors.Is(err, broken) || e.Payload != nil {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := u.Upcast("shop.order.paid.v1", 1, []byte(`{}`)); err == nil {
		t.Error("an empty result passed")
	}
}

func TestAStepHasOnePlace(t *testing.T) {
	var u contract.Upcasters
	same := func(p []byte) ([]byte, error) { return p, nil }
	if err := u.Add("shop.order.placed.v1", same); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"twice":      u.Add("shop.order.placed.v1", same),
		"no version": u.Add("shop.order.placed", same),
		"nil":        u.Add("shop.order.placed.v2", nil),
	} {
		if !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
