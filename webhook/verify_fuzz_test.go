package webhook

import (
	"net/http"
	"testing"
	"time"
)

// A request is accepted exactly when it is the one that was signed: whatever is changed in
// its id, time, body or signature, it is refused.
func FuzzVerify(f *testing.F) {
	f.Add("msg_1", int64(1_800_000_000), []byte(`{}`), "msg_1", "1800000000", []byte(`{}`), "", uint8(0))
	f.Add("msg_1", int64(1_800_000_000), []byte(`{}`), "msg_2", "1800000000", []byte(`{}`), "", uint8(0))
	f.Add("a", int64(1_800_000_000), []byte("x"), "a", "01800000000", []byte("x"), "v1,", uint8(3))
	secret := NewSecret()
	f.Fuzz(func(t *testing.T, id string, at int64, body []byte, gotID, gotAt string, gotBody []byte, extra string, flip uint8) {
		signed := time.Unix(at, 0)
		signature, err := Sign(id, signed, body, secret)
		if err != nil {
			return
		}
		if n := int(flip) % (len(signature) + 1); n > 0 {
			changed := []byte(signature)
			changed[n-1] ^= 1
			signature = string(changed)
		}
		v, err := NewVerifier(Config{Secrets: []Secret{secret}, Now: func() time.Time { return signed }})
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		header.Set("webhook-id", gotID)
		header.Set("webhook-timestamp", gotAt)
		header.Set("webhook-signature", signature+extra)
		if v.Verify(t.Context(), header, gotBody) != nil {
			return
		}
		parsed, err := parseTimestamp(gotAt)
		if err != nil || !parsed.Equal(signed) || gotID != id || string(gotBody) != string(body) {
			t.Errorf("accepted %q %q %q, signed was %q %d %q", gotID, gotAt, gotBody, id, at, body)
		}
	})
}
