package outbox_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-outbox/outbox"
)

// wantSafe checks what holds for every sanitised text.
func wantSafe(t testing.TB, got string, payload []byte, limit int) {
	t.Helper()
	if limit <= 0 {
		limit = outbox.MaxErrorBytes
	}
	if len(got) > limit {
		t.Errorf("%d bytes, at most %d are allowed", len(got), limit)
	}
	if !utf8.ValidString(got) {
		t.Errorf("not valid UTF-8: %.200q", got)
	}
	for _, r := range got {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			t.Errorf("holds %U: %.200q", r, got)
			break
		}
	}
	for i := 0; i+24 <= len(payload); i++ {
		if run := string(payload[i : i+24]); strings.Contains(got, run) {
			t.Errorf("echoes the payload: %q in %.200q", run, got)
			break
		}
	}
}

// R-A50.
func TestLastErrorIsTruncatedAndScrubbed(t *testing.T) {
	payload := []byte(`{"card":"4111111111111111","name":"Ada Lovelace"}`)
	err := fmt.Errorf("post https://bob:hunter2@api.example/hook: 500: %s\x00 %s", payload, strings.Repeat("ü", 5000))

	got := outbox.SanitizeError(err, payload, 0)

	wantSafe(t, got, payload, 0)
	if want := "post https://[redacted]@api.example/hook: 500: [payload]  üü"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %.100q\nwant %q", got, want)
	}
	if !strings.HasSuffix(got, "ü… (truncated)") {
		t.Errorf("does not say that it was cut: …%q", got[len(got)-30:])
	}
}

func TestSanitizeKeepsWhatIsHarmless(t *testing.T) {
	for _, text := range []string{
		"",
		"boom",
		"dial tcp 10.0.0.7:9092: connect: connection refused",
		"kafka: NOT_LEADER_OR_FOLLOWER (code 6), topic shop.order.placed.v1",
		`ERROR: duplicate key value violates unique constraint "orders_pkey" (SQLSTATE 23505)`,
		"unexpected token near line 5",
		"see https://example.org/docs/errors?page=2#top",
		"write to ada@example.org",
		"status 401: Unauthorized",
		"größer als 5 € 🙂 日本語",
		"100% of 3/4 [done] (ok) {x}",
		`open C:\temp\file`,
	} {
		if got := outbox.SanitizeText(text, []byte(`{"id":1}`), 0); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := outbox.SanitizeError(nil, nil, 0); got != "" {
		t.Errorf("nil became %q", got)
	}
}

// S-14: the text of a url.Error is the whole URL, and its path is the secret.
func TestAURLErrorShowsItsHostOnly(t *testing.T) {
	const slack = "https://hooks.slack.example/services/T0001/B0002/s3cr3tPath?t=s3cr3tQuery#s3cr3tPart"
	refused := errors.New("connection refused")
	unparsable := parseError("postgres://app:s3cr3t/Pass@db.example/shop")
	control := parseError("https://h.example/s3cr3t\x7f")

	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"as it is", &url.Error{Op: "Post", URL: slack, Err: refused}, `Post "https://hooks.slack.example": connection refused`},
		{"wrapped", fmt.Errorf("sink: %w", &url.Error{Op: "Post", URL: slack, Err: refused}), `sink: Post "https://hooks.slack.example": connection refused`},
		{"under a verdict", outbox.Unavailable(&url.Error{Op: "Post", URL: slack, Err: refused}), `Post "https://hooks.slack.example": connection refused`},
		{"flattened to text", fmt.Errorf("sink: %v", &url.Error{Op: "Get", URL: slack, Err: refused}), `sink: Get "https://hooks.slack.example": connection refused`}, //nolint:errorlint // the case
		{"with a port", &url.Error{Op: "Post", URL: "http://h.example:8080/s3cr3t", Err: io.EOF}, `Post "http://h.example:8080": EOF`},
		{"with a password", &url.Error{Op: "Post", URL: "https://u:s3cr3t@h.example/x", Err: io.EOF}, `Post "https://h.example": EOF`},
		{"of an operation of its own", &url.Error{Op: "subscribe", URL: slack, Err: io.EOF}, `subscribe "https://hooks.slack.example": EOF`},
		{"whose URL needs quoting", &url.Error{Op: "Post", URL: `https://h.example/"s3cr3t"`, Err: io.EOF}, `Post "https://h.example": EOF`},
		{"without a host", &url.Error{Op: "Post", URL: "/s3cr3t", Err: io.EOF}, `Post "[url]": EOF`},
		{"that repeats the URL", &url.Error{Op: "Post", URL: slack, Err: errors.New(slack + " is gone")}, `Post "https://hooks.slack.example": https://hooks.slack.example is gone`},
		{"that net/url could not parse", unparsable, `parse "[url]": invalid port [redacted] after host`},
		{"of control characters", control, `parse "https://h.example": net/url: invalid control character in URL`},
		{"without a URL", &url.Error{Op: "Post", Err: io.EOF}, `Post "": EOF`},
		{"without a cause", &url.Error{Op: "Post", URL: slack}, `Post "https://hooks.slack.example": %!s(<nil>)`},
		{"twice", errors.Join(
			&url.Error{Op: "Get", URL: "https://a.example/s3cr3t", Err: io.EOF},
			&url.Error{Op: "Put", URL: "https://b.example/s3cr3t", Err: io.EOF},
		), `Get "https://a.example": EOF Put "https://b.example": EOF`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := outbox.SanitizeError(tt.err, nil, 0)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if strings.Contains(got, "s3cr3t") {
				t.Errorf("leaks: %s", got)
			}
		})
	}
}

// Every text holds the secret, in a shape that a client library or a driver prints.
func TestSecretsOfManyShapesAreRedacted(t *testing.T) {
	for _, tt := range []struct{ name, text, secret string }{
		{"a PostgreSQL URL", "cannot connect to postgres://app:hunter2@db/shop?sslmode=off", "hunter2"},
		{"an AMQP URL", `dial "amqps://guest:hunter2@mq:5671/": EOF`, "hunter2"},
		{"a Redis URL without a user", "redis://:hunter2@cache:6379/0", "hunter2"},
		{"a password with an @", "postgres://app:hun@ter2@db/shop", "ter2"},
		{"a password with a slash", "postgres://app:hun/ter2@db/shop", "ter2"},
		{"a token for a user", "git clone https://s3cr3ttoken@git.example/x", "s3cr3ttoken"},
		{"a MySQL DSN", "invalid DSN: app:hunter2@tcp(127.0.0.1:3306)/shop", "hunter2"},
		{"a MySQL DSN with an odd password", "app:hun@t/er2@unix(/tmp/mysql.sock)/shop", "er2"},
		{"a keyword DSN", "host=db user=app password=hunter2 dbname=shop", "hunter2"},
		{"a quoted keyword DSN", "host=db password='hunter2 and more' dbname=shop", "and more"},
		{"an Azure connection string", "AccountName=a;AccountKey=aHVudGVyMg==;EndpointSuffix=x", "aHVudGVyMg"},
		{"an Azure signature", "GET /c/b?sv=2024&sig=aHVudGVyMg%3D&se=x", "aHVudGVyMg"},

		{"a bearer token", "401 with Bearer abc.def-ghi_jkl", "abc.def"},
		{"basic credentials", "Authorization: Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"},
		{"a token scheme", "Authorization: Token hunter2hunter2", "hunter2"},
		{"an upper-case header", "AUTHORIZATION: BEARER hunter2hunter2", "hunter2"},
		{"an API key header", "X-Api-Key: hunter2", "hunter2"},
		{"a cookie", "Set-Cookie: session=hunter2", "hunter2"},

		{"a query parameter", "GET /x?access_token=hunter2&y=1", "hunter2"},
		{"a client secret", "client_secret=hunter2", "hunter2"},
		{"a secret key", "secretKey: hunter2", "hunter2"},
		{"an environment variable", "PGPASSWORD=hunter2", "hunter2"},
		{"a name with a digit", "db2_password=hunter2", "hunter2"},
		{"a dotted name", "sasl.password=hunter2", "hunter2"},
		{"a JAAS line", `sasl.jaas.config=PlainLoginModule username="a" password="hunter2";`, "hunter2"},
		{"a passphrase", "passphrase: hunter2", "hunter2"},
		{"YAML", "password: hunter2", "hunter2"},
		{"JSON", `{"password":"hunter2","user":"a"}`, "hunter2"},
		{"JSON with punctuation inside", `{"password": "hunter2, {and} \"more\" rest"}`, "rest"},
		{"JSON in a Go string", `body "{\"password\":\"hunter2\"}"`, "hunter2"},
		{"a Python dict", `{'api_key': 'hunter2 or so'}`, "or so"},

		{"a webhook secret", "bad secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8"},
		{"a JWT", "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP", "eyJzdWIi"},
		{"an AWS key", "no access for AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"},
		{"a temporary AWS key", "no access for ASIAIOSFODNN7EXAMPLE", "IOSFODNN7"},
		{"a GitHub token", "remote said no to ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F"},
		{"a Slack token", "invalid_auth xoxb-123456789012-abcdef", "abcdef"},
		{"a Stripe key", "no such key: sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39Hq"},
		{"a private key", "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----", "IBAAKC"},
		{"half a private key", "-----BEGIN PRIVATE KEY-----\nMIIEow\nIBAAKC", "IBAAKC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tt.text, tt.secret) {
				t.Fatal("the text does not hold the secret")
			}
			got := outbox.SanitizeText("before "+tt.text+" after", nil, 0)
			if strings.Contains(got, tt.secret) {
				t.Errorf("leaks %q: %s", tt.secret, got)
			}
			if !strings.Contains(got, "[redacted]") || !strings.HasPrefix(got, "before ") {
				t.Errorf("lost more than the secret: %s", got)
			}
		})
	}
}

func TestRedactionKeepsTheRestOfTheText(t *testing.T) {
	for text, want := range map[string]string{
		"connect postgres://app:hunter2@db:5432/shop: timeout": "connect postgres://[redacted]@db:5432/shop: timeout",
		"app:hunter2@tcp(db:3306)/shop: timeout":               "[redacted]@tcp(db:3306)/shop: timeout",
		"host=db password=hunter2 dbname=shop":                 "host=db password=[redacted] dbname=shop",
		`{"token":"hunter2","code":7}`:                         `{"token":[redacted],"code":7}`,
		"/x?access_token=hunter2&page=2":                       "/x?access_token=[redacted]&page=2",
	} {
		if got := outbox.SanitizeText(text, nil, 0); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// S-15.
func TestTerminalAndControlSequencesAreRemoved(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"a cursor movement", "a\x1b[2J\x1b[1;1Hb", "ab"},
		{"a private mode", "a\x1b[?25lb", "ab"},
		{"a window title", "a\x1b]0;owned\x07b", "ab"},
		{"a link", "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"a short escape", "a\x1bcb", "ab"},
		{"an escape at the end", "a\x1b", "a"},
		{"an escape that hides an escape", "\x1b\x1b[31mred", "[31mred"},
		{"an escape from 8 bits", "a\u009b31mb", "a 31mb"},
		{"lines", "one\ntwo\r\nthree\tfour", "one two  three four"},
		{"NUL", "a\x00b", "a b"},
		{"DEL and C1", "a\x7fb\u0085c", "a b c"},
		{"line and paragraph separators", "a\u2028b\u2029c", "a b c"},
		{"a reversal of direction", "a\u202egpj.exe", "a gpj.exe"},
		{"zero width", "a\u200bb\ufeffc", "a b c"},
		{"not UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"half a rune", "a\xe2\x82", "a\uFFFD"},
		{"a surrogate", "a\xed\xa0\x80b", "a\uFFFDb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := outbox.SanitizeText(tt.text, nil, 0)
			wantSafe(t, got, nil, 0)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestThePayloadIsNotEchoed(t *testing.T) {
	const order = `{"card":"4111111111111111","name":"Ada Lovelace","city":"London"}`
	const pretty = "{\n  \"card\": \"4111111111111111\",\n  \"name\": \"Ada Lovelace\"\n}\n"
	large := `{"pad":"` + strings.Repeat("0123456789abcdef-", 60_000) + `","name":"Ada Lovelace, London"}`

	for _, tt := range []struct{ name, payload, text, want string }{
		{"whole", order, "refused: " + order + " (413)", "refused: [payload] (413)"},
		{"whole, twice", order, order + " and " + order, "[payload] and [payload]"},
		{"whole but for its white space", "\n" + order + "\n", "refused: " + order, "refused: [payload]"},
		{"its beginning", order, "refused: " + order[:40] + "...", "refused: [payload]..."},
		{"its middle", order, "near '" + order[10:50] + "'", "near '[payload]'"},
		{"its end", order, "..." + order[len(order)-30:], "...[payload]"},
		{"two parts side by side", order, order[:30] + order[35:], "[payload][payload]"},
		{"two parts apart", order, order[:30] + " … " + order[30:], "[payload] … [payload]"},
		{"a short one, whole", `{"pin":1234}`, `refused: {"pin":1234}`, "refused: [payload]"},
		{"as a Go string", order, fmt.Sprintf("refused: %q", order), `refused: "[payload]"`},
		{"its middle as a Go string", order, `near ` + strings.ReplaceAll(order[8:60], `"`, `\"`), "near [payload]"},
		{"over several lines", pretty, "refused: " + pretty + "end", "refused: [payload]end"},
		{"several lines as a Go string", pretty, fmt.Sprintf("refused: %q", pretty), `refused: "[payload]"`},
		{"behind an escape sequence", order, "\x1b[31m" + order, "[payload]"},
		{"broken by an escape sequence", order, order[:20] + "\x1b[31m" + order[20:40], "[payload]"},
		{"the end of a large one", large, "near " + large[len(large)-30:], "near [payload]"},
		{"field names are no echo", order, `field "card" of 4111 is not known`, `field "card" of 4111 is not known`},
		{"23 bytes are no echo", order, "near " + order[:23], "near " + order[:23]},
		{"24 bytes are", order, "near " + order[:24], "near [payload]"},
		{"no payload", "", "refused", "refused"},
		{"a payload of white space", "  \n ", "re fused", "re fused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := outbox.SanitizeText(tt.text, []byte(tt.payload), 0)
			wantSafe(t, got, []byte(tt.payload), 0)
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAnEchoThatEndsInsideARuneLeavesValidText(t *testing.T) {
	payload := []byte(strings.Repeat("x", 22) + "äö")
	got := outbox.SanitizeText("\x1b"+strings.Repeat("x", 22)+"äü and so on", payload[:25], 0)
	wantSafe(t, got, payload[:25], 0)
	if !strings.HasSuffix(got, "and so on") {
		t.Errorf("got %q", got)
	}
}

func TestTheLimitHoldsForEveryLength(t *testing.T) {
	text := strings.Repeat("aü€🙂", 300)
	for _, limit := range []int{1, 2, 3, 4, 14, 15, 16, 17, 18, 19, 100, len(text) - 1, len(text), len(text) + 1, math.MaxInt, 0, -1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			got := outbox.SanitizeText(text, nil, limit)
			wantSafe(t, got, nil, limit)

			bound := limit
			if bound <= 0 {
				bound = outbox.MaxErrorBytes
			}
			switch {
			case len(text) <= bound && got != text:
				t.Errorf("a text that fits was changed: %d bytes of %d", len(got), len(text))
			case len(text) > bound && bound >= 16 && !strings.HasSuffix(got, "… (truncated)"):
				t.Errorf("does not say that it was cut: %q", got)
			case len(text) > bound && len(got) < bound-3:
				t.Errorf("%d bytes of %d are used", len(got), bound)
			}
		})
	}
}

func TestACutTextSaysSoEvenWhenScrubbingMadeItShort(t *testing.T) {
	payload := []byte(strings.Repeat("0123456789abcdef-", 1000))
	got := outbox.SanitizeText(string(payload), payload, 0)
	if got != "[payload]… (truncated)" {
		t.Errorf("got %q", got)
	}
}

// F-50: whatever an error says, settling the message must not fail because of it.
func TestHugeAndRandomErrorsAreSanitizedQuickly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 10<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	payload := []byte(`"` + strings.Repeat("payload 0123456789 ", 50_000) + `"`)

	for name, text := range map[string]string{
		"noise":            string(noise),
		"one word":         strings.Repeat("x", 10<<20),
		"escapes":          strings.Repeat("\x1b[", 5<<20),
		"open titles":      strings.Repeat("\x1b]", 5<<20),
		"controls":         strings.Repeat("\x00", 10<<20),
		"the payload":      strings.Repeat(string(payload), 10),
		"names of secrets": strings.Repeat("password", 1<<20),
		"secrets":          strings.Repeat("password=x ", 1<<20),
		"user names":       strings.Repeat("a://b:", 2<<20),
		"quotes":           strings.Repeat(`password="\`, 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			got := outbox.SanitizeError(errors.New(text), payload, 0)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took) // milliseconds, but for a busy machine and -race
			}
			wantSafe(t, got, nil, 0) // the echo is checked elsewhere: it is slow for a payload of this size
			if !strings.HasSuffix(got, "… (truncated)") {
				t.Errorf("does not say that it was cut: %.50q", got)
			}
		})
	}

	for size := 0; size < 3000; size += 1 + size/10 {
		at := random.IntN(len(noise) - size)
		wantSafe(t, outbox.SanitizeText(string(noise[at:at+size]), nil, 0), nil, 0)
	}
}

type hostile struct{ unwrap bool }

func (h *hostile) Error() string {
	if h.unwrap {
		return "reads well"
	}
	panic("no text for you")
}

func (h *hostile) Unwrap() error {
	if h.unwrap {
		panic("no cause for you")
	}
	return nil
}

func TestAHostileErrorIsOnlyText(t *testing.T) {
	var none *hostile // its Error method dereferences nil
	for name, err := range map[string]error{
		"Error panics":          &hostile{},
		"Error panics, wrapped": outbox.Permanent(&hostile{}),
		"Unwrap panics":         &hostile{unwrap: true},
		"a typed nil":           none,
	} {
		if got, want := outbox.SanitizeError(err, nil, 0), "error whose text could not be read"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// parseError is the error of a URL that cannot be parsed.
func parseError(raw string) error {
	_, err := url.Parse(raw)
	return err
}
