package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// jsonOf is a JSON object of exactly n bytes.
func jsonOf(n int) []byte {
	return fmt.Appendf(nil, `{"note":"%s"}`, strings.Repeat("x", n-len(`{"note":""}`)))
}

func BenchmarkGateAdmit(b *testing.B) {
	plain := outbox.Message{Topic: topic, Payload: jsonOf(300)}
	full := plain
	full.Key, full.TenantID, full.EventID = "order-1", "tenant", uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	full.Headers = map[string]string{"x-shop": "berlin", "x-channel": "web"}

	for name, msg := range map[string]outbox.Message{"300 bytes": plain, "300 bytes, all fields": full} {
		b.Run(name, func(b *testing.B) {
			ctx, gate := b.Context(), outbox.Gate{}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := gate.Admit(ctx, "outbox", msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSanitizeError(b *testing.B) {
	short := errors.New("dial tcp 10.0.0.7:9092: connect: connection refused")
	for _, bm := range []struct {
		name    string
		err     error
		payload []byte
	}{
		{"short", short, jsonOf(300)},
		{"short, payload of 1 MiB", short, jsonOf(1 << 20)},
		{"echo", fmt.Errorf("status 400: %s", jsonOf(300)), jsonOf(300)},
		{"2 KiB", errors.New(strings.Repeat("connection refused; ", 100)), jsonOf(300)},
		{"10 MB", errors.New(strings.Repeat("connection refused; ", 500_000)), jsonOf(300)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				outbox.SanitizeError(bm.err, bm.payload, 0)
			}
		})
	}
}
