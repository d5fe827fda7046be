package webhooksink

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func TestWhatAnAnswerMeans(t *testing.T) {
	const (
		delivered   = outbox.VerdictDelivered
		retry       = outbox.VerdictRetry
		permanent   = outbox.VerdictPermanent
		unavailable = outbox.VerdictUnavailable
	)
	tests := []struct {
		status     int
		retryAfter string
		verdict    outbox.Verdict
		after      time.Duration
		text       string
	}{
		{200, "", delivered, 0, ""},
		{201, "", delivered, 0, ""},
		{202, "60", delivered, 0, ""},
		{204, "", delivered, 0, ""},
		{299, "", delivered, 0, ""},

		{101, "", retry, 0, "101"},
		{300, "", retry, 0, "redirect refused"},
		{301, "", retry, 0, "redirect refused"},
		{302, "", retry, 0, "redirect refused"},
		{304, "", retry, 0, "redirect refused"},
		{307, "", retry, 0, "redirect refused"},
		{308, "", retry, 0, "redirect refused"},

		{400, "", permanent, 0, "400 Bad Request"},
		{401, "", permanent, 0, ""},
		{403, "", permanent, 0, ""},
		{404, "60", permanent, 0, ""},
		{405, "", permanent, 0, ""},
		{409, "", permanent, 0, ""},
		{413, "", permanent, 0, ""},
		{415, "", permanent, 0, ""},
		{422, "", permanent, 0, ""},
		{499, "", permanent, 0, ""},

		{408, "", retry, 0, ""},
		{425, "", retry, 0, ""},
		{429, "", retry, 0, ""},
		{429, "120", retry, 2 * time.Minute, ""},
		{429, "999999999", retry, 24 * time.Hour, ""},
		{425, "7", retry, 7 * time.Second, ""},
		{410, "", unavailable, 0, "the destination is gone: 410 Gone: its messages wait"},
		{503, "999999999", unavailable, 24 * time.Hour, ""},

		{500, "", retry, 0, "500 Internal Server Error"},
		{500, "30", retry, 30 * time.Second, ""},
		{501, "", retry, 0, ""},
		{502, "", retry, 0, ""},
		{504, "", retry, 0, ""},
		{503, "", unavailable, 0, "503 Service Unavailable"},
		{503, "120", unavailable, 2 * time.Minute, "it asks to wait 2m0s"},
		{599, "", retry, 0, ""},
		{700, "", retry, 0, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d after %s", tt.status, tt.retryAfter), func(t *testing.T) {
			response := &http.Response{StatusCode: tt.status, Header: http.Header{"Retry-After": {tt.retryAfter}}}

			err := answerError(response, nil, nil, noon)

			verdict, after := outbox.Classify(err)
			if verdict != tt.verdict || after != tt.after {
				t.Errorf("%s after %s, want %s after %s", verdict, after, tt.verdict, tt.after)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("text %q, want %q in it", err, tt.text)
			}
		})
	}
}

func TestAnEndpointThatIsGoneIsToldFromOneThatIsDown(t *testing.T) {
	for _, status := range []int{404, 410, 503} {
		err := answerError(&http.Response{StatusCode: status}, nil, nil, noon)
		if got, want := errors.Is(err, outbox.ErrGone), status == 410; got != want {
			t.Errorf("%d: gone is %v, want %v: %v", status, got, want, err)
		}
	}
}

func TestRetryAfterIsReadWithSuspicion(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"1", time.Second},
		{"86400", 24 * time.Hour},
		{"86401", 24 * time.Hour},
		{"2147483648", 24 * time.Hour},
		{strings.Repeat("9", 1000), 24 * time.Hour},
		{"-1", 0},
		{"+1", 0},
		{"1.5", 0},
		{"1e9", 0},
		{"soon", 0},
		{" 1", 0},
		{noon.Add(time.Hour).Format(http.TimeFormat), time.Hour},
		{noon.Add(-time.Hour).Format(http.TimeFormat), 0},
		{noon.Add(1000 * time.Hour).Format(http.TimeFormat), 24 * time.Hour},
		{"Mon, 01 Jan 9999 00:00:00 GMT", 24 * time.Hour},
	}
	for _, tt := range tests {
		if got := retryAfter(tt.value, noon); got != tt.want {
			t.Errorf("%.40q is %s, want %s", tt.value, got, tt.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "1", "-1", "999999999999", "Sun, 15 Nov 2026 13:00:00 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, noon); d < 0 || d > maxRetryAfter {
			t.Errorf("%q is %s", value, d)
		}
	})
}

func TestWhatARequestWithoutAnAnswerMeans(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		name      string
		err       error
		connected bool
		want      outbox.Verdict
	}{
		{"refused", dial(syscall.ECONNREFUSED), false, outbox.VerdictUnavailable},
		{"unreachable", dial(syscall.EHOSTUNREACH), false, outbox.VerdictUnavailable},
		{"no such host", dial(&net.DNSError{Err: "no such host", IsNotFound: true}), false, outbox.VerdictUnavailable},
		{"dial timed out", dial(context.DeadlineExceeded), false, outbox.VerdictUnavailable},
		{"certificate of another", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, false, outbox.VerdictUnavailable},
		{"certificate expired", x509.CertificateInvalidError{Reason: x509.Expired}, false, outbox.VerdictUnavailable},
		{"no answer in time", context.DeadlineExceeded, true, outbox.VerdictRetry},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true, outbox.VerdictRetry},
		{"cut off", io.ErrUnexpectedEOF, true, outbox.VerdictRetry},
		{"denied", dial(fmt.Errorf("%w: why", ErrEgressDenied)), false, outbox.VerdictPermanent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := transportError(t.Context(), tt.err, tt.connected)
			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestAStopOfTheCallerIsNoOutage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	err := transportError(ctx, context.Canceled, false)

	if outbox.IsUnavailable(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorKeepsLittleOfTheAnswer(t *testing.T) {
	payload := []byte(`{"card": "4111 1111 1111 1111", "holder": "somebody"}`)
	tests := []struct {
		name, encoding, body, want string
	}{
		{"text", "", " bad order\n", "400 Bad Request: bad order"},
		{"nothing", "", "", "400 Bad Request"},
		{"escape sequences", "", "\x1b[31mred\x1b[0m\r\n\x00", "400 Bad Request: red"},
		{"the payload", "", "cannot take " + string(payload), "400 Bad Request: cannot take [payload]"},
		{"a secret", "", "password=hunter2-canary", "400 Bad Request: password=[redacted]"},
		{"compressed", "gzip", "\x1f\x8b", "400 Bad Request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := &http.Response{StatusCode: 400, Header: http.Header{"Content-Encoding": {tt.encoding}}}
			got := strings.TrimSpace(answerError(response, []byte(tt.body), payload, noon).Error())
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	long := answerError(&http.Response{StatusCode: 400}, []byte(strings.Repeat("é", maxResponse)), nil, noon).Error()
	if len(long) > maxExcerpt+50 {
		t.Errorf("it keeps %d bytes", len(long))
	}
}
