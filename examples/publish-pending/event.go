package main

import (
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// An Event is what happened to an order.
type Event struct {
	ID      string `json:"id"` // not a UUID
	Type    string `json:"type"`
	OrderID int64  `json:"order_id"`
}

// events is the namespace of this service's event ids.
var events = uuid.MustParse("5a3a0c5e-5b0c-4f6e-9a52-3d5a1d2f6c11")

// EventID is the UUID of an id of the service's own. It is the same each time, so an
// entry that is saved twice is still one.
func EventID(id string) uuid.UUID { return uuid.NewSHA1(events, []byte(id)) }

// NewEntry makes an entry of the outbox from an event.
func NewEntry(e Event) (outbox.Message, error) {
	payload, err := json.Marshal(e)
	if err != nil {
		return outbox.Message{}, err
	}
	order := strconv.FormatInt(e.OrderID, 10)
	return outbox.Message{
		Topic: "shop.order.placed.v1", Payload: payload, Key: order, EventID: EventID(e.ID),
		AggregateType: "Order", AggregateID: order, EventType: e.Type,
	}, nil
}

// ToEvent reads an entry. One that cannot be read now never can: it fails for good, and
// the others go on.
func ToEvent(payload []byte) (e Event, err error) {
	if err := json.Unmarshal(payload, &e); err != nil {
		return Event{}, outbox.Permanent(err)
	}
	return e, nil
}
