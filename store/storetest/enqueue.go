package storetest

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var enqueueClaims = []claim{
	{"is_visible_after_commit", func(s *suite) {
		lease := s.lease()

		ids := s.enqueueKeys("a", "b")

		equalAll(s, "read", sequences(s.fresh(lease)), ids)
	}},
	{"is_invisible_until_commit", func(s *suite) {
		lease := s.lease()
		tx := s.Begin(s.T)
		id, err := tx.Enqueue(s.Context(), message("a"))
		s.ok(err)

		before := s.read(lease, outbox.ReadRequest{Limit: many, All: true, IDs: []int64{id}})
		s.ok(tx.Commit())

		equalAll(s, "read before commit", append(all(before), before.Seen...), nil)
		equalAll(s, "read after commit", sequences(s.fresh(lease)), []int64{id})
	}},
	{"is_gone_after_rollback", func(s *suite) {
		tx := s.Begin(s.T)
		_, err := tx.Enqueue(s.Context(), message("a"))
		s.ok(err)
		_, err = tx.EnqueueMany(s.Context(), []outbox.Message{message("b"), message("c")})
		s.ok(err)

		s.ok(tx.Rollback())

		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 0)
	}},
	{"is_gone_after_a_panic_of_the_caller", func(s *suite) {
		func() {
			tx := s.Begin(s.T)
			defer func() {
				s.that(recover() != nil, "there was no panic")
				s.ok(tx.Rollback())
			}()
			_, err := tx.Enqueue(s.Context(), message("a"))
			s.ok(err)
			panic("the business code is broken")
		}()

		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 0)
	}},
	{"fails_on_a_cancelled_context_and_writes_nothing", func(s *suite) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		tx := s.Begin(s.T)

		_, err := tx.Enqueue(ctx, message("a"))
		s.is(err, context.Canceled)
		_ = tx.Rollback() // a driver may have ended the transaction itself

		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 0)
	}},
	{"rolls_back_to_a_savepoint_and_no_further", func(s *suite) {
		s.need(s.Features.Savepoints, "Savepoints")
		again := message("b")
		again.EventID = uuid.New()
		other := again
		other.Payload = []byte(`{"n":2}`)
		tx := s.Begin(s.T).(SavepointTx)

		a, err := tx.Enqueue(s.Context(), message("a"))
		s.ok(err)
		s.ok(tx.Savepoint("before_b"))
		_, err = tx.Enqueue(s.Context(), again)
		s.ok(err)
		s.ok(tx.RollbackTo("before_b"))
		b, err := tx.Enqueue(s.Context(), other)
		s.ok(err)
		s.ok(tx.Commit())

		equalAll(s, "messages", sequences(s.list(outbox.Filter{OldestFirst: true}).Records), []int64{a, b})
	}},
	{"without_a_transaction_commits_by_itself", func(s *suite) {
		id, err := s.Autocommit(s.Context(), message("a"))
		s.ok(err)

		equalAll(s, "read", sequences(s.fresh(s.lease())), []int64{id})
	}},
	{"of_many_returns_the_sequences_in_the_order_of_the_messages", func(s *suite) {
		msgs := make([]outbox.Message, 1500)
		for i := range msgs {
			msgs[i] = message("key")
			msgs[i].EventID = uuid.New()
		}
		tx := s.Begin(s.T)

		ids, err := tx.EnqueueMany(s.Context(), msgs)
		s.ok(err)
		s.ok(tx.Commit())

		records := s.fresh(s.lease())
		equalAll(s, "sequences", sequences(records), ids)
		for i, rec := range records {
			equal(s, "event id", rec.EventID, msgs[i].EventID)
		}
	}},
	{"of_none_is_nothing", func(s *suite) {
		tx := s.Begin(s.T)

		ids, err := tx.EnqueueMany(s.Context(), nil)
		s.ok(err)
		s.ok(tx.Commit())

		equal(s, "sequences", len(ids), 0)
	}},
	{"of_many_writes_none_when_one_is_invalid", func(s *suite) {
		bad := message("b")
		bad.Topic = ""
		tx := s.Begin(s.T)

		_, err := tx.EnqueueMany(s.Context(), []outbox.Message{message("a"), bad})
		s.is(err, outbox.ErrInvalidTopic)
		id, err := tx.Enqueue(s.Context(), message("c"))
		s.ok(err)
		s.ok(tx.Commit())

		equalAll(s, "messages", sequences(s.list(outbox.Filter{}).Records), []int64{id})
	}},
	{"gives_out_growing_sequences", func(s *suite) {
		first := s.enqueueCount(3)
		second := s.enqueueCount(3)

		ids := append(first, second...)
		for i := range ids[1:] {
			s.that(ids[i] > 0 && ids[i+1] > ids[i], "sequences do not grow: %v", ids)
		}
	}},
	{"stores_every_field", func(s *suite) {
		msg := outbox.Message{
			Topic: topic, Payload: []byte(`{"n":1}`), Key: "order/1 ünïcode", EventID: uuid.New(), TenantID: "tenant-1",
			Headers: map[string]string{"x-shop": "berlin"}, ContentType: "application/json; charset=utf-8",
			AggregateType: "Order", AggregateID: "1", EventType: "OrderPlaced", EventVersion: 7,
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
		}
		id := s.enqueue(msg)[0]

		page := s.read(s.lease(), outbox.ReadRequest{Limit: 1})
		equal(s, "messages", len(page.Fresh), 1)
		checkStored(s, page.Fresh[0], id, msg)
		checkStored(s, s.row(id), id, msg)
		s.that(page.Fresh[0].Due, "the message is not due")
		s.that(!page.Now.Before(page.Fresh[0].CreatedAt), "created at %v, after the database's now %v", page.Fresh[0].CreatedAt, page.Now)
	}},
	{"completes_what_the_caller_left_out", func(s *suite) {
		s.enqueue(outbox.Message{Topic: topic, Payload: []byte(`{}`)}, outbox.Message{Topic: topic, Payload: []byte(`{}`)})

		records := s.fresh(s.lease())
		s.that(records[0].EventID != uuid.Nil, "no event id was made")
		s.that(records[0].EventID != records[1].EventID, "both messages have the same event id")
		equal(s, "event version", records[0].EventVersion, 1)
		equal(s, "key", records[0].Key, "")
		equal(s, "headers", len(records[0].Headers), 0)
		equal(s, "available at", records[0].AvailableAt, records[0].CreatedAt)
		equal(s, "attempts, crashes, replays", records[0].Attempts+records[0].Crashes+records[0].Replays, 0)
	}},
	{"keeps_payload_bytes_unchanged", func(s *suite) {
		s.need(!s.Features.Rewrites, "payload bytes unchanged (Features.Rewrites)")
		payloads := []string{
			`{"b":1,"a":2,"b":3}`, ` { "spaced" :  [ 1 , 2 ] } `, "{\n\t\"lines\": true\r\n}",
			`{"zero":"\u0000","lone":"\ud800","pair":"\ud83d\ude00","slash":"\/"}`, `{"plain":"😀 Ω"}`,
			`[1.0,1.50,1e2,1E+2,-0,123456789012345678901234567890.5,1e400]`, `null`, `"text"`, `0`,
			`{"quote":"it's ` + "`$1 ? :name %s" + ` \\ \" "}`, `"` + strings.Repeat("x", 100_000) + `"`,
		}
		for _, p := range payloads {
			s.enqueue(outbox.Message{Topic: topic, Payload: json.RawMessage(p)})
		}

		for i, rec := range s.fresh(s.lease()) {
			equal(s, "payload", string(rec.Payload), payloads[i])
			equal(s, "payload by Get", string(s.row(rec.Sequence).Payload), payloads[i])
		}
	}},
	{"keeps_the_meaning_of_payloads_it_rewrites", func(s *suite) {
		s.need(s.Features.Rewrites, "Rewrites")
		s.enqueue(outbox.Message{Topic: topic, Payload: []byte(`{"b": [1, "😀"], "a": null}`)})

		var got map[string]any
		s.ok(json.Unmarshal(s.fresh(s.lease())[0].Payload, &got))
		equal(s, "fields", len(got), 2)
	}},
	{"keeps_binary_payloads_or_refuses_them", func(s *suite) {
		msg := outbox.Message{Topic: topic, ContentType: "application/octet-stream"}
		for i := range 256 {
			msg.Payload = append(msg.Payload, byte(i))
		}
		tx := s.Begin(s.T)

		_, err := tx.Enqueue(s.Context(), msg)

		if !s.Features.Binary {
			s.is(err, outbox.ErrInvalidPayload)
			s.ok(tx.Commit())
			return
		}
		s.ok(err)
		s.ok(tx.Commit())
		equal(s, "payload", string(s.fresh(s.lease())[0].Payload), string(msg.Payload))
	}},
	{"keeps_headers_unchanged", func(s *suite) {
		msg := message("a")
		msg.Headers = map[string]string{
			"empty": "", "quotes": `it's "quoted" \ and {"json":1}`, "unicode": "größer 😀", "a.b_c-1": "null", "spaces": "  x  ",
		}
		id := s.enqueue(msg)[0]

		s.that(maps.Equal(s.fresh(s.lease())[0].Headers, msg.Headers), "headers by Read differ")
		s.that(maps.Equal(s.row(id).Headers, msg.Headers), "headers by Get differ: %v", s.row(id).Headers)
	}},
	{"refuses_invalid_messages_and_leaves_the_transaction_usable", func(s *suite) {
		tx := s.Begin(s.T)
		for _, bad := range []struct {
			name   string
			change func(*outbox.Message)
			want   error
		}{
			{"no topic", func(m *outbox.Message) { m.Topic = "" }, outbox.ErrInvalidTopic},
			{"topic with a line break", func(m *outbox.Message) { m.Topic = "shop.order.placed\n.v1" }, outbox.ErrInvalidTopic},
			{"no payload", func(m *outbox.Message) { m.Payload = nil }, outbox.ErrInvalidPayload},
			{"no JSON", func(m *outbox.Message) { m.Payload = []byte(`{"n":`) }, outbox.ErrInvalidPayload},
			{"no UTF-8", func(m *outbox.Message) { m.Payload = []byte("\"\xff\"") }, outbox.ErrInvalidPayload},
			{"large payload", func(m *outbox.Message) { m.Payload = []byte(`"` + strings.Repeat("x", 2<<20) + `"`) }, outbox.ErrPayloadTooLarge},
			{"key with NUL", func(m *outbox.Message) { m.Key = "a\x00b" }, outbox.ErrInvalidKey},
			{"reserved header", func(m *outbox.Message) { m.Headers = map[string]string{"outbox-topic": "x"} }, outbox.ErrInvalidHeader},
			{"tenant with NUL", func(m *outbox.Message) { m.TenantID = "\x00" }, outbox.ErrInvalidMessage},
		} {
			msg := message("a")
			bad.change(&msg)
			_, err := tx.Enqueue(s.Context(), msg)
			s.Log(bad.name)
			s.is(err, bad.want)
		}
		id, err := tx.Enqueue(s.Context(), message("a"))
		s.ok(err)
		s.ok(tx.Commit())

		equalAll(s, "messages", sequences(s.list(outbox.Filter{}).Records), []int64{id})
	}},
	{"accepts_rows_of_other_languages", func(s *suite) {
		s.need(s.InsertRaw != nil, "InsertRaw")
		id := s.InsertRaw(s.T, "any topic at all", "k", `{"n": 1}`)

		records := s.fresh(s.lease())
		equalAll(s, "messages", sequences(records), []int64{id})
		s.that(records[0].EventID != uuid.Nil, "the row has no event id")
		equal(s, "topic", records[0].Topic, "any topic at all")
		equal(s, "key", records[0].Key, "k")
		equal(s, "payload", string(records[0].Payload), `{"n": 1}`)
		s.that(records[0].Due, "the row is not due")
		s.that(time.Since(records[0].CreatedAt).Abs() < time.Hour, "created at %v", records[0].CreatedAt)
	}},
}

func checkStored(s *suite, rec *outbox.Record, id int64, msg outbox.Message) {
	s.Helper()
	equal(s, "sequence", rec.Sequence, id)
	equal(s, "event id", rec.EventID, msg.EventID)
	equal(s, "event version", rec.EventVersion, msg.EventVersion)
	s.payload(rec, string(msg.Payload))
	for _, f := range []struct{ name, got, want string }{
		{"topic", rec.Topic, msg.Topic},
		{"key", rec.Key, msg.Key},
		{"tenant", rec.TenantID, msg.TenantID},
		{"header", rec.Headers["x-shop"], msg.Headers["x-shop"]},
		{"content type", rec.ContentType, msg.ContentType},
		{"aggregate type", rec.AggregateType, msg.AggregateType},
		{"aggregate id", rec.AggregateID, msg.AggregateID},
		{"event type", rec.EventType, msg.EventType},
		{"traceparent", rec.TraceParent, msg.TraceParent},
		{"tracestate", rec.TraceState, msg.TraceState},
	} {
		equal(s, f.name, f.got, f.want)
	}
}
