package outbox

import (
	"bytes"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxErrorBytes is the default bound on a stored error text.
const MaxErrorBytes = 2048

const truncated = "… (truncated)"

// SanitizeError turns err into text that is safe to store, log and show: valid
// UTF-8 without control characters, without secrets that look like secrets, without
// the payload, and at most limit bytes (0 means [MaxErrorBytes]). It never fails, so
// a settle can never fail because of its own text.
func SanitizeError(err error, payload []byte, limit int) string {
	if err == nil {
		return ""
	}
	return SanitizeText(errorText(err), payload, limit)
}

// SanitizeText is SanitizeError for text that is already a string.
func SanitizeText(s string, payload []byte, limit int) string {
	if limit <= 0 {
		limit = MaxErrorBytes
	}
	// Bound the work before the costly passes; four times the limit leaves room
	// for what they remove.
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = removePayload(s, payload)
	s = ansi.ReplaceAllString(s, "")
	s = strings.Map(printable, strings.ToValidUTF8(s, "\uFFFD"))
	s = redact(s)
	if len(s) <= limit {
		return s
	}
	return cutRunes(s, limit-len(truncated)) + truncated
}

// errorText is err.Error, except that a panic in a hostile Error method is itself
// only text.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "error whose text could not be read"
		}
	}()
	// A url.Error prints the whole URL, path and query included; those carry
	// tokens. Keep the host only.
	if u, ok := errors.AsType[*url.Error](err); ok && u.Err != nil {
		host := u.URL
		if parsed, perr := url.Parse(u.URL); perr == nil {
			host = parsed.Scheme + "://" + parsed.Host
		}
		return strings.ReplaceAll(err.Error(), u.URL, host)
	}
	return err.Error()
}

var ansi = regexp.MustCompile("\x1b(\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|.)?")

func printable(r rune) rune {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cf, r) {
		return ' '
	}
	return r
}

// removePayload drops echoes of the payload: whole, or any long run of it as a
// client library quotes it.
func removePayload(s string, payload []byte) string {
	const window = 24 // shorter runs are field names and common words
	payload = bytes.TrimSpace(payload)
	if len(payload) == 0 || len(s) == 0 {
		return s
	}
	s = strings.ReplaceAll(s, string(payload), "[payload]")
	if len(payload) < window {
		return s
	}
	seen := make(map[string]struct{}, len(payload)/8)
	for i := 0; i+window <= len(payload) && i < 1<<16; i++ {
		seen[string(payload[i:i+window])] = struct{}{}
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if i+window <= len(s) {
			if _, echo := seen[s[i:i+window]]; echo {
				out.WriteString("[payload]")
				i = skipEcho(s, i, window, seen)
				continue
			}
		}
		out.WriteByte(s[i])
		i++
	}
	return out.String()
}

func skipEcho(s string, i, window int, seen map[string]struct{}) int {
	for i+1+window <= len(s) {
		if _, echo := seen[s[i+1:i+1+window]]; !echo {
			break
		}
		i++
	}
	return i + window
}

var secrets = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s@/]*@`), "${1}[redacted]@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}`), "${1} [redacted]"},
	{regexp.MustCompile(`(?i)\b([a-z_-]*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|authorization|signature|sasl[a-z._-]*))("?\s*[=:]\s*"?)[^\s"&,;)}]+`), "${1}${2}[redacted]"},
	{regexp.MustCompile(`\bwhsec_[A-Za-z0-9+/=]+`), "[redacted]"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`), "[redacted]"},
	{regexp.MustCompile(`\bAKIA[0-9A-Z]{12,}`), "[redacted]"},
}

// redact removes what looks like a credential.
func redact(s string) string {
	for _, secret := range secrets {
		s = secret.find.ReplaceAllString(s, secret.put)
	}
	return s
}

func cutRunes(s string, n int) string {
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
