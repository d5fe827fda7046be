package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

const (
	topic  = "shop.order.placed.v1"
	tenant = "5f0c6f0e-3a5c-4f6e-9a51-0d6b6f7a1c11"
	// keys is how many ordering keys there are: our messages are delivered in
	// order per key, in every workload.
	keys = 20_000
)

// before and after are the payload around its number: about 300 bytes of JSON.
const (
	before = `{"n":`
	after  = `,"order_id":"7f1d3f0a-54a1-4c0e-8f7b-2f6a3f1f9b52","customer":{"id":"c-48213","name":"Ada Lovelace",` +
		`"country":"DE"},"currency":"EUR","total":"149.90","items":[{"sku":"A-100-BLK","quantity":2,"price":"49.95"},` +
		`{"sku":"B-220-RED","quantity":1,"price":"50.00"}],"note":"leave at the door"}`
)

func payload(n int) []byte {
	b := make([]byte, 0, len(before)+len(after)+8)
	b = append(b, before...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, after...)
}

// number reads n back, also after jsonb has reordered and spaced the payload.
func number(payload []byte) (int, error) {
	_, rest, ok := bytes.Cut(payload, []byte(`"n":`))
	if !ok {
		return 0, fmt.Errorf("payload without a number: %.80s", payload)
	}
	rest = bytes.TrimLeft(rest, " ")
	end := bytes.IndexAny(rest, ",} ")
	if end < 0 {
		return 0, fmt.Errorf("payload ends in its number: %.80s", payload)
	}
	return strconv.Atoi(string(rest[:end]))
}

func message(n int) outbox.Message {
	return outbox.Message{Topic: topic, Key: key(n), TenantID: tenant, Payload: payload(n)}
}

func key(n int) string { return "order-" + strconv.Itoa(n%keys) }

var tenantUUID = uuid.MustParse(tenant)

// The same in SQL, for backlogs that are made inside the server; i is the number.
// Event ids ascend, as UUIDv7 do.
var (
	sqlPayload = `('` + before + `' || i || '` + after + `')`
	sqlKey     = fmt.Sprintf(`('order-' || i %% %d)`, keys)
	sqlEventID = `lpad(to_hex(i), 32, '0')::uuid`
)
