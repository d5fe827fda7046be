package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// A Secret is the key that a sender and a receiver share. Make it with NewSecret or
// ParseSecret; the zero value signs and verifies nothing. It prints as [redacted]
// with every verb, as JSON and in logs; only Reveal shows it.
type Secret struct {
	// A function, because fmt cannot call Format in an unexported field of
	// somebody's struct, and looks behind pointers when the verb does not fit.
	key func() []byte
}

func secretOf(b []byte) Secret { return Secret{func() []byte { return b }} }

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes, by the specification
	maxSecret    = 64
	redacted     = "[redacted]"
)

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	b := make([]byte, 32)
	rand.Read(b) // never fails: the program ends instead
	return secretOf(b)
}

// ParseSecret reads a secret as NewSecret's Reveal writes it: whsec_ and base64 of 24
// to 64 bytes. White space around it, such as the line end of a file, does not count.
// The error never contains the secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("webhook secret: must begin with %s", secretPrefix)
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("webhook secret: is not base64 after %s", secretPrefix)
	}
	if len(b) < minSecret || len(b) > maxSecret {
		return Secret{}, fmt.Errorf("webhook secret: has %d bytes, want %d to %d", len(b), minSecret, maxSecret)
	}
	return secretOf(b), nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Reveal returns the secret as ParseSecret reads it, or "" of the zero Secret. It is
// for handing the secret to the other side, once.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// UnmarshalText makes a Secret a field of a configuration.
func (s *Secret) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSecret(string(text))
	return err
}

// Format prints [redacted], whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

func (s Secret) String() string { return redacted }

// MarshalText returns [redacted]: a configuration may be printed.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue is [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
