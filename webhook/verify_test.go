package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/go-outbox/outbox/webhook"
)

var now = time.Unix(1_800_000_000, 0)

// body is not JSON on purpose: what is signed are bytes.
var body = []byte("{\"order\": 7}\n\x00\xff")

func signed(t *testing.T, id string, at time.Time, secrets ...webhook.Secret) http.Header {
	t.Helper()
	signature, err := webhook.Sign(id, at, body, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(webhook.HeaderID, id)
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(webhook.HeaderSignature, signature)
	return h
}

func verifier(t *testing.T, cfg webhook.Config) *webhook.Verifier {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return now }
	}
	v, err := webhook.NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWeAndTheOfficialLibraryAcceptEachOther(t *testing.T) {
	secret := webhook.NewSecret()
	official, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()

	if err := official.Verify(body, signed(t, "msg_1", at, webhook.NewSecret(), secret)); err != nil {
		t.Errorf("the official library refuses ours: %v", err)
	}

	theirs, err := official.Sign("msg_1", at, body)
	if err != nil {
		t.Fatal(err)
	}
	if ours := signed(t, "msg_1", at, secret).Get(webhook.HeaderSignature); ours != theirs {
		t.Errorf("we sign %q, they sign %q", ours, theirs)
	}
	header := signed(t, "msg_1", at, secret)
	header.Set(webhook.HeaderSignature, "v1a,abc "+theirs)
	if err := verifier(t, webhook.Config{Secrets: []webhook.Secret{secret}, Now: time.Now}).Verify(t.Context(), header, body); err != nil {
		t.Errorf("we refuse theirs: %v", err)
	}
}

// The vector of the specification's own examples.
func TestSignIsTheOneOfTheSpecification(t *testing.T) {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}

	got, err := webhook.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), secret)

	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestVerify(t *testing.T) {
	oldSecret, newSecret, stranger := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	second := time.Second
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	tests := []struct {
		name string
		by   []webhook.Secret
		at   time.Time
		edit func(http.Header)
		want error
	}{
		{"right", []webhook.Secret{newSecret}, now, nil, nil},
		{"by the old secret", []webhook.Secret{oldSecret}, now, nil, nil},
		{"by both", []webhook.Secret{oldSecret, newSecret}, now, nil, nil},
		{"by a stranger and us", []webhook.Secret{stranger, newSecret}, now, nil, nil},
		{"by a stranger", []webhook.Secret{stranger}, now, nil, webhook.ErrNoMatch},
		{"as old as allowed", []webhook.Secret{newSecret}, now.Add(-5 * time.Minute), nil, nil},
		{"older", []webhook.Secret{newSecret}, now.Add(-5*time.Minute - second), nil, webhook.ErrStale},
		{"as early as allowed", []webhook.Secret{newSecret}, now.Add(5 * time.Minute), nil, nil},
		{"earlier", []webhook.Secret{newSecret}, now.Add(5*time.Minute + second), nil, webhook.ErrFuture},

		{"another id", []webhook.Secret{newSecret}, now, set(webhook.HeaderID, "msg_2"), webhook.ErrNoMatch},
		{"another timestamp", []webhook.Secret{newSecret}, now, set(webhook.HeaderTimestamp, "1800000001"), webhook.ErrNoMatch},
		{"no id", []webhook.Secret{newSecret}, now, func(h http.Header) { h.Del(webhook.HeaderID) }, webhook.ErrMalformed},
		{"two ids", []webhook.Secret{newSecret}, now, func(h http.Header) { h.Add(webhook.HeaderID, "msg_2") }, webhook.ErrMalformed},
		{"id with a dot", []webhook.Secret{newSecret}, now, set(webhook.HeaderID, "msg.1"), webhook.ErrMalformed},
		{"no timestamp", []webhook.Secret{newSecret}, now, func(h http.Header) { h.Del(webhook.HeaderTimestamp) }, webhook.ErrMalformed},
		{"timestamp in another form", []webhook.Secret{newSecret}, now, set(webhook.HeaderTimestamp, "+1800000000"), webhook.ErrMalformed},
		{"timestamp with a zero", []webhook.Secret{newSecret}, now, set(webhook.HeaderTimestamp, "01800000000"), webhook.ErrMalformed},
		{"negative timestamp", []webhook.Secret{newSecret}, now, set(webhook.HeaderTimestamp, "-1"), webhook.ErrMalformed},
		{"enormous timestamp", []webhook.Secret{newSecret}, now, set(webhook.HeaderTimestamp, "9223372036854775807"), webhook.ErrMalformed},
		{"no signature", []webhook.Secret{newSecret}, now, func(h http.Header) { h.Del(webhook.HeaderSignature) }, webhook.ErrMalformed},
		{"signature without version", []webhook.Secret{newSecret}, now, set(webhook.HeaderSignature, "abc"), webhook.ErrMalformed},
		{"long signature", []webhook.Secret{newSecret}, now, set(webhook.HeaderSignature, strings.Repeat("v1,a ", 1000)), webhook.ErrMalformed},
		{"unknown version", []webhook.Secret{newSecret}, now, set(webhook.HeaderSignature, "v2,abc v1a,abc"), webhook.ErrUnknownVersion},
		{"not base64", []webhook.Secret{newSecret}, now, set(webhook.HeaderSignature, "v1,%%"), webhook.ErrNoMatch},
		{"empty", []webhook.Secret{newSecret}, now, set(webhook.HeaderSignature, "v1,"), webhook.ErrNoMatch},
		{"truncated", []webhook.Secret{newSecret}, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, h.Get(webhook.HeaderSignature)[:20])
		}, webhook.ErrNoMatch},
		{"extended", []webhook.Secret{newSecret}, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, h.Get(webhook.HeaderSignature)+"\n")
		}, webhook.ErrNoMatch},
	}
	v := verifier(t, webhook.Config{Secrets: []webhook.Secret{oldSecret, newSecret}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := signed(t, "msg_1", tt.at, tt.by...)
			if tt.edit != nil {
				tt.edit(header)
			}
			if err := v.Verify(t.Context(), header, body); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestEveryByteOfTheBodyCounts(t *testing.T) {
	secret := webhook.NewSecret()
	v := verifier(t, webhook.Config{Secrets: []webhook.Secret{secret}})
	header := signed(t, "msg_1", now, secret)
	for i := range body {
		other := bytes.Clone(body)
		other[i] ^= 1
		if err := v.Verify(t.Context(), header, other); !errors.Is(err, webhook.ErrNoMatch) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func TestTheReplayGuardSeesOnlyWhatIsRight(t *testing.T) {
	secret := webhook.NewSecret()
	seen := map[string]bool{}
	v := verifier(t, webhook.Config{
		Secrets: []webhook.Secret{secret},
		Fresh: func(_ context.Context, request string, until time.Time) (bool, error) {
			if !until.After(now.Add(5 * time.Minute)) {
				t.Errorf("may forget at %s, while it is still accepted", until)
			}
			fresh := !seen[request]
			seen[request] = true
			return fresh, nil
		},
	})
	forged := signed(t, "msg_1", now, webhook.NewSecret())
	first := signed(t, "msg_1", now, secret)
	retry := signed(t, "msg_1", now.Add(time.Second), secret)

	for _, step := range []struct {
		name   string
		header http.Header
		want   error
	}{
		{"a forgery takes nobody's place", forged, webhook.ErrNoMatch},
		{"the first passes", first, nil},
		{"the same again is a replay", first, webhook.ErrReplayed},
		{"a retry is signed anew and passes", retry, nil},
	} {
		if err := v.Verify(t.Context(), step.header, body); !errors.Is(err, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, err, step.want)
		}
	}
}

func TestAReplayGuardThatFailsAcceptsNothing(t *testing.T) {
	down := errors.New("down")
	secret := webhook.NewSecret()
	v := verifier(t, webhook.Config{
		Secrets: []webhook.Secret{secret},
		Fresh:   func(context.Context, string, time.Time) (bool, error) { return true, down },
	})

	if err := v.Verify(t.Context(), signed(t, "msg_1", now, secret), body); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
}

func TestAVerifierNeedsSecrets(t *testing.T) {
	for name, cfg := range map[string]webhook.Config{
		"none":  {},
		"empty": {Secrets: []webhook.Secret{webhook.NewSecret(), {}}},
		"tolerance": {
			Secrets: []webhook.Secret{webhook.NewSecret()}, Tolerance: -1,
		},
		"body": {Secrets: []webhook.Secret{webhook.NewSecret()}, MaxBody: -1},
	} {
		if _, err := webhook.NewVerifier(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSignRefusesWhatNobodyCouldVerify(t *testing.T) {
	secret := webhook.NewSecret()
	tests := []struct {
		name    string
		id      string
		at      time.Time
		secrets []webhook.Secret
	}{
		{"id with a dot", "a.b", now, []webhook.Secret{secret}},
		{"no id", "", now, []webhook.Secret{secret}},
		{"id with a line break", "a\r\nb", now, []webhook.Secret{secret}},
		{"no secret", "a", now, nil},
		{"empty secret", "a", now, []webhook.Secret{{}}},
		{"before 1970", "a", time.Unix(-1, 0), []webhook.Secret{secret}},
	}
	for _, tt := range tests {
		if got, err := webhook.Sign(tt.id, tt.at, body, tt.secrets...); err == nil {
			t.Errorf("%s: signed as %q", tt.name, got)
		}
	}
}
