package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/webhook"
)

func TestASecretIsPrintedByNothingButReveal(t *testing.T) {
	secret := webhook.NewSecret()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	type config struct {
		Public webhook.Secret
		hidden webhook.Secret
		list   []webhook.Secret
	}
	cfg := config{secret, secret, []webhook.Secret{secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
		for _, value := range []any{secret, &secret, cfg, &cfg, []webhook.Secret{secret}, map[string]any{"k": cfg}} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("config", "secret", secret, "all", cfg)
	slog.New(slog.NewTextHandler(&out, nil)).Info("config", "secret", secret, "all", cfg)

	for _, leak := range []string{
		secret.Reveal()[6:], string(raw), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw),
		strings.Trim(fmt.Sprintf("%d", raw), "[]"), strings.Trim(fmt.Sprintf("%#v", raw), "[]byte{}"),
	} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the secret is printed as %q", leak)
		}
	}
	if !strings.Contains(fmt.Sprintf("%#v", secret), "[redacted]") || !strings.Contains(string(text), `"[redacted]"`) {
		t.Error("the secret is not printed as [redacted]")
	}
}

func TestParseSecret(t *testing.T) {
	encode := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	tests := []struct {
		name, text, want string // want is a part of the error
	}{
		{"shortest", encode(24), ""},
		{"longest", encode(64), ""},
		{"with the line end of a file", " " + encode(32) + "\r\n", ""},
		{"too short", encode(23), "has 23 bytes, want 24 to 64"},
		{"too long", encode(65), "has 65 bytes"},
		{"empty", "", "must begin with whsec_"},
		{"without prefix", encode(32)[6:], "must begin with whsec_"},
		{"not base64", "whsec_canary!canary!canary!canary!canary!", "is not base64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			secret, err := webhook.ParseSecret(tt.text)
			if tt.want == "" {
				if err != nil || secret.Reveal() != strings.TrimSpace(tt.text) {
					t.Errorf("got %q, %v", secret.Reveal(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestASecretIsReadFromAConfiguration(t *testing.T) {
	secret := webhook.NewSecret()
	var cfg struct{ Secret webhook.Secret }

	err := json.Unmarshal([]byte(`{"Secret":"`+secret.Reveal()+`"}`), &cfg)

	if err != nil || cfg.Secret.Reveal() != secret.Reveal() {
		t.Errorf("got another secret, or %v", err)
	}
}

func TestSecretsDiffer(t *testing.T) {
	one, other := webhook.NewSecret(), webhook.NewSecret()
	if one.Reveal() == other.Reveal() {
		t.Error("two new secrets are the same")
	}
}
