package outbox

import (
	"bytes"
	"errors"
	"net/url"
	"regexp"
	"strconv"
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
	cut := len(s)/4 > limit
	if cut {
		s = s[:4*limit]
	}
	s = removePayload(s, payload)
	if clean := printable(s); clean != s {
		// An escape sequence in the middle may have hidden an echo.
		s = strings.ToValidUTF8(removePayload(clean, payload), "")
	}
	s = redact(s)
	switch {
	case len(s) <= limit && !cut:
		return s
	case limit < len(truncated):
		return cutRunes(s, limit)
	default:
		return cutRunes(s, limit-len(truncated)) + truncated
	}
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
	// tokens. Keep the host only. (redact does the same for url.Errors that were
	// flattened to text on their way here.)
	if u, ok := errors.AsType[*url.Error](err); ok && u.URL != "" {
		return strings.ReplaceAll(err.Error(), u.URL, hostOf(u.URL))
	}
	return err.Error()
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "[url]"
	}
	return u.Scheme + "://" + u.Host
}

var ansi = regexp.MustCompile("\x1b(\\[[0-9;?]*[\\x20-\\x2f]*[\\x40-\\x7e]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|.)?")

// printable drops escape sequences and turns what is left of control characters and
// invisible ones into spaces.
func printable(s string) string {
	s = strings.ToValidUTF8(ansi.ReplaceAllString(s, ""), "\uFFFD")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
}

// echo is the shortest run of a payload that is removed from a text: shorter ones
// are field names and common words.
const echo = 24

// tiny payloads, such as `0` or `true`, are not worth hiding and would be found all
// over the text.
const tiny = 6

// removePayload drops echoes of the payload: whole, or any long run of it as a
// client library quotes it.
func removePayload(s string, payload []byte) string {
	if short := bytes.TrimSpace(payload); len(short) >= tiny && len(short) < echo {
		s = strings.ReplaceAll(s, string(short), "[payload]")
	}
	s = removeEchoes(s, payload)
	if strings.Contains(s, `\`) { // as %q and nested JSON write it
		quoted := strconv.AppendQuote(nil, string(payload))
		s = removeEchoes(s, quoted[1:len(quoted)-1])
	}
	return s
}

// removeEchoes replaces every run of echo bytes or more that s shares with payload.
// It indexes s, which is bounded, and only looks at payload, which may be large.
func removeEchoes(s string, payload []byte) string {
	if len(s) < echo || len(payload) < echo {
		return s
	}
	runs := make(map[string]bool, len(s)) // of s: is it in payload?
	for i := range len(s) - echo + 1 {
		runs[s[i:i+echo]] = false
	}
	found := false
	for i := range len(payload) - echo + 1 {
		if _, ok := runs[string(payload[i:i+echo])]; ok {
			runs[string(payload[i:i+echo])] = true
			found = true
		}
	}
	if !found {
		return s
	}
	var out strings.Builder
	end := 0 // of the run being replaced
	for i := range len(s) {
		if i+echo <= len(s) && runs[s[i:i+echo]] {
			if i >= end {
				out.WriteString("[payload]")
			}
			end = i + echo
		}
		if i >= end {
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

const (
	// secretName is how a setting that holds a secret is called, in any style.
	secretName = `[a-z0-9_.-]*(?:pass(?:word|wd|phrase)|pwd|secret|token|credentials?|authorization|cookie|signature|sasl[a-z._-]*|` +
		`(?:api|access|account|private|shared|secret|signing)[_-]?key)(?:[_-]?(?:key|value))?`
	// secretValue is one word, or everything between quotes.
	secretValue = `(?:\\+"[^"]*"?|"(?:\\.|[^"\\])*"?|'[^']*'?|(?:(?:bearer|basic|token|apikey|negotiate)\s+)?[^\s"'&,;)}]+)`
)

// secrets are tried in order. hint is a part of every match: looking for it first
// spares most texts most of the patterns.
var secrets = []struct {
	hint string
	find *regexp.Regexp
	put  string
}{
	// The password of a URL or of a MySQL DSN, also one that should have been
	// escaped; and a token in place of a user.
	{"@", regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)(?:[^\s/@:"]*:[^\s"]*|[^\s/@"]*)@`), "${1}[redacted]@"},
	{"@", regexp.MustCompile(`(?i)[^\s:@/"]*:[^\s"]*@(tcp|udp|unix)\(`), "[redacted]@${1}("},
	// What net/url says of a URL: its path and query, or a part it took for a port.
	{"://", regexp.MustCompile(`\b(Get|Head|Post|Put|Patch|Delete|Options|parse) "([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#"\\]*)(?:\\.|[^"\\])*"`), `${1} "${2}"`},
	{"invalid port", regexp.MustCompile(`invalid port "(?:\\.|[^"\\])*"`), "invalid port [redacted]"},

	{"", regexp.MustCompile(`(?i)\b(` + secretName + `)(\\*["']?\s*[=:]\s*)` + secretValue), "${1}${2}[redacted]"},
	{"", regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}`), "${1} [redacted]"},
	{"sig=", regexp.MustCompile(`\bsig=[^\s"'&]+`), "sig=[redacted]"},
	{"-----BEGIN", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), "[redacted]"},
	{"whsec_", regexp.MustCompile(`\bwhsec_[A-Za-z0-9+/=]+`), "[redacted]"},
	{"eyJ", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`), "[redacted]"},
	{"IA", regexp.MustCompile(`\bA[KS]IA[0-9A-Z]{12,}`), "[redacted]"},
	{"", regexp.MustCompile(`\b(?:gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|[rs]k_(?:live|test)_)[A-Za-z0-9_-]{8,}`), "[redacted]"},
}

// redact removes what looks like a credential.
func redact(s string) string {
	for _, secret := range secrets {
		if strings.Contains(s, secret.hint) {
			s = secret.find.ReplaceAllString(s, secret.put)
		}
	}
	return s
}

// cutRunes is the longest prefix of s of at most n bytes that ends between runes.
func cutRunes(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
