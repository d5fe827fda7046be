package webhooksink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

// maxRetryAfter bounds what an endpoint may ask for.
const maxRetryAfter = 24 * time.Hour

// A judgement is what an answer means for the message, and a hint for the operator.
type judgement struct {
	verdict outbox.Verdict
	hint    string
}

// answers are the statuses that mean something else than their class.
var answers = map[int]judgement{
	// The request came at a bad time, the message may be good.
	http.StatusRequestTimeout:  {outbox.VerdictRetry, ""},
	http.StatusTooEarly:        {outbox.VerdictRetry, ""},
	http.StatusTooManyRequests: {outbox.VerdictRetry, ""},
	// It wants no more webhooks: the relay pauses the route.
	http.StatusGone: {outbox.VerdictUnavailable, "its messages wait until the route is resumed"},
	// The one status that says so of itself. 500, 502 and 504 may be one
	// message's doing: if they stopped the route, that message would for ever.
	http.StatusServiceUnavailable: {outbox.VerdictUnavailable, ""},
}

func judge(status int) judgement {
	if j, ok := answers[status]; ok {
		return j
	}
	switch status / 100 {
	case 2:
		return judgement{outbox.VerdictDelivered, ""}
	case 3:
		return judgement{outbox.VerdictRetry, "redirect refused; configure the new address"}
	case 4:
		return judgement{outbox.VerdictPermanent, ""}
	}
	return judgement{outbox.VerdictRetry, ""}
}

// answerError judges an answer: nil for 2xx.
func answerError(response *http.Response, body, payload []byte, now time.Time) error {
	answer := judge(response.StatusCode)
	if answer.verdict == outbox.VerdictDelivered {
		return nil
	}
	err := errors.New(describe(response, answer.hint, body, payload))
	if response.StatusCode == http.StatusGone {
		err = outbox.ErrGone.Wrap(err)
	}
	after := retryAfter(response.Header.Get("Retry-After"), now)
	switch answer.verdict {
	case outbox.VerdictPermanent:
		return outbox.Permanent(err)
	case outbox.VerdictUnavailable:
		if after > 0 { // the circuit asks again then, or later
			err = outbox.RetryAfter(fmt.Errorf("%w (it asks to wait %s)", err, after), after)
		}
		return outbox.Unavailable(err)
	}
	if after > 0 {
		return outbox.RetryAfter(err, after)
	}
	return err
}

// describe is the answer in words, with as much of its body as is worth keeping.
func describe(response *http.Response, hint string, body, payload []byte) string {
	text := strconv.Itoa(response.StatusCode)
	if name := http.StatusText(response.StatusCode); name != "" {
		text += " " + name
	}
	if hint != "" {
		text += ": " + hint
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return text // nobody asked for that, and nobody unpacks it
	}
	if excerpt := outbox.SanitizeText(strings.TrimSpace(string(body)), payload, maxExcerpt); excerpt != "" {
		text += ": " + excerpt
	}
	return text
}

// retryAfter reads a Retry-After header: seconds or a date. What makes no sense
// counts for nothing, what is too long is cut.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return maxRetryAfter // more digits than a number has
		}
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// transportError judges a request without an answer. Without a connection nothing
// was sent, and it says nothing about the message: refused, unreachable, no such
// name, no valid certificate. With one, nobody knows what the endpoint has done.
func transportError(ctx context.Context, err error, connected bool) error {
	switch {
	case errors.Is(err, ErrEgressDenied):
		return outbox.Permanent(err)
	case errors.Is(ctx.Err(), context.Canceled):
		return err // the caller's doing
	case !connected:
		return outbox.Unavailable(err)
	}
	return err
}
