// Package webhook signs and verifies webhooks by the Standard Webhooks
// specification, version v1: HMAC-SHA256 over id, timestamp and body.
//
// A receiver makes a [Verifier] with its secrets and wraps its handler in
// [Verifier.Handler], or in [Verifier.Receive] to be given the message of an outbox that
// was sent. What passes was signed by somebody who has one of the secrets,
// over exactly these bytes, and not longer ago than the tolerance.
//
// That a request passes does not mean that it is the first of its event: senders
// deliver at least once, and a retry is signed anew under the same webhook-id.
// Receivers deduplicate on that id. The replay guard is something else, it refuses a
// captured request that is sent again byte for byte.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers of the specification.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// version names the only scheme of this package.
const version = "v1"

type digest = [sha256.Size]byte

// Sign returns the value of the webhook-signature header: one signature for each
// secret, so that a receiver may have either while a secret is rotated. The
// timestamp header must carry at.Unix().
func Sign(id string, at time.Time, body []byte, secrets ...Secret) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	if len(secrets) == 0 {
		return "", errNoSecret
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	if _, err := parseTimestamp(timestamp); err != nil {
		return "", err
	}
	var header strings.Builder
	for i, s := range secrets {
		if s.IsZero() {
			return "", errNoSecret
		}
		if i > 0 {
			header.WriteByte(' ')
		}
		mac := sign(s, id, timestamp, body)
		header.WriteString(version + "," + base64.StdEncoding.EncodeToString(mac[:]))
	}
	return header.String(), nil
}

func sign(s Secret, id, timestamp string, body []byte) (mac digest) {
	h := hmac.New(sha256.New, s.key())
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	h.Sum(mac[:0])
	return mac
}

const (
	maxID        = 256
	maxSignature = 4096 // bytes of the header: far more than a rotation needs
)

// checkID refuses ids with which two different messages could have the same signed
// text, and those that are no header value.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: the id must have 1 to %d bytes, it has %d", ErrMalformed, maxID, len(id))
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7f || c == '.' {
			return fmt.Errorf("%w: the id may only hold printable ASCII without spaces and dots", ErrMalformed)
		}
	}
	return nil
}

// parseTimestamp reads seconds since 1970 in their one decimal form: what is signed
// is the text.
func parseTimestamp(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40 || strconv.FormatInt(n, 10) != s {
		return time.Time{}, fmt.Errorf("%w: the timestamp is not a number of seconds since 1970", ErrMalformed)
	}
	return time.Unix(n, 0), nil
}

// parseSignatures returns the v1 signatures of a header. Those of other versions are
// passed over, as the specification wants; when there are no others, that is an
// error of its own.
func parseSignatures(header string) ([]digest, error) {
	if header == "" || len(header) > maxSignature {
		return nil, fmt.Errorf("%w: the signature must have 1 to %d bytes, it has %d", ErrMalformed, maxSignature, len(header))
	}
	var found []digest
	known := false
	for part := range strings.SplitSeq(header, " ") {
		v, text, ok := strings.Cut(part, ",")
		if !ok || v == "" {
			return nil, fmt.Errorf("%w: a signature has the form VERSION,BASE64", ErrMalformed)
		}
		if v != version {
			continue
		}
		known = true
		if mac, ok := parseDigest(text); ok {
			found = append(found, mac)
		}
	}
	if !known {
		return nil, ErrUnknownVersion
	}
	return found, nil
}

// parseDigest takes only what Sign could have written: not even a line break, which
// the decoder would skip.
func parseDigest(text string) (mac digest, ok bool) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(mac) || len(text) != base64.StdEncoding.EncodedLen(len(mac)) {
		return mac, false
	}
	return digest(b), true
}
