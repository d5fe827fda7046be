package eventbus_test

import (
	"errors"
	"fmt"

	"github.com/go-outbox/outbox/eventbus"
)

func Example() {
	type Meta struct{ EventID string }
	type OrderPaid struct{ Order int }

	bus := eventbus.New()
	unsubscribe, err := bus.Subscribe(func(meta *Meta, e *OrderPaid) error {
		fmt.Printf("%s: order %d is paid\n", meta.EventID, e.Order)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(bus.PublishE(&Meta{EventID: "evt-1"}, &OrderPaid{Order: 7}))

	unsubscribe()
	err = bus.PublishE(&Meta{EventID: "evt-2"}, &OrderPaid{Order: 8})
	fmt.Println(errors.Is(err, eventbus.ErrNoSubscribers))
	// Output:
	// evt-1: order 7 is paid
	// <nil>
	// true
}
