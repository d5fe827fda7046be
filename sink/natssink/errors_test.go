package natssink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
)

const (
	retry       = outbox.VerdictRetry
	permanent   = outbox.VerdictPermanent
	unavailable = outbox.VerdictUnavailable
)

// The server names its codes; the client does not.
func TestWhatAnAnswerMeans(t *testing.T) {
	tests := map[server.ErrorIdentifier]outbox.Verdict{
		server.JSStreamMessageExceedsMaximumErr: permanent,
		server.JSStreamHeaderExceedsMaximumErr:  permanent,

		server.JSAccountResourcesExceededErr:  unavailable,
		server.JSMemoryResourcesExceededErr:   unavailable,
		server.JSStorageResourcesExceededErr:  unavailable,
		server.JSStreamMaxStreamBytesExceeded: unavailable,
		server.JSInsufficientResourcesErr:     unavailable,
		server.JSStreamStoreFailedF:           unavailable,
		server.JSStreamOfflineErr:             unavailable,
		server.JSStreamOfflineReasonErrF:      unavailable,
		server.JSStreamTooManyRequests:        unavailable,
		server.JSClusterNotAvailErr:           unavailable,
		server.JSNotEnabledErr:                unavailable,
		server.JSNotEnabledForAccountErr:      unavailable,

		server.JSClusterNotLeaderErr:            retry,
		server.JSStreamSealedErr:                retry,
		server.JSStreamNotMatchErr:              retry,
		server.JSStreamDuplicateMessageConflict: retry,
		server.JSMessageIncrMissingErr:          retry,
		server.JSBadRequestErr:                  retry,
	}
	for id, want := range tests {
		known := server.ApiErrors[id]
		answer := &jetstream.APIError{
			Code: known.Code, ErrorCode: jetstream.ErrorCode(known.ErrCode), Description: known.Description,
		}
		t.Run(answer.Description, func(t *testing.T) {
			err := classify(answer)
			if got, _ := outbox.Classify(err); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if !errors.Is(err, answer) || !strings.Contains(err.Error(), fmt.Sprint(known.ErrCode)) {
				t.Errorf("%q does not say which error it is", err)
			}
		})
	}
}

func TestEveryListedAnswerIsOneOfTheServers(t *testing.T) {
	known := map[uint16]bool{}
	for _, e := range server.ApiErrors {
		known[e.ErrCode] = true
	}
	for code := range answers {
		if !known[uint16(code)] {
			t.Errorf("no server says %d", code)
		}
	}
}

func TestAFullSubjectDoesNotStopTheOthers(t *testing.T) {
	full := &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: server.ErrMaxMsgsPerSubject.Error()}
	if got := judge(full); got != retry {
		t.Errorf("%s, want retry", got)
	}
	full.Description = server.ErrMaxMsgs.Error()
	if got := judge(full); got != unavailable {
		t.Errorf("%s, want unavailable", got)
	}
}

func TestWhatAnErrorOfTheClientMeans(t *testing.T) {
	tests := []struct {
		err  error
		want outbox.Verdict
	}{
		{nats.ErrMaxPayload, permanent},
		{nats.ErrBadSubject, permanent},
		{nats.ErrBadHeaderMsg, permanent},
		{nats.ErrConnectionClosed, unavailable},
		{nats.ErrConnectionDraining, unavailable},
		{nats.ErrConnectionReconnecting, unavailable},
		{nats.ErrReconnectBufExceeded, unavailable},
		{nats.ErrNoServers, unavailable},
		{nats.ErrHeadersNotSupported, unavailable},
		{jetstream.ErrJetStreamNotEnabled, unavailable},
		{jetstream.ErrJetStreamNotEnabledForAccount, unavailable},
		{jetstream.ErrStreamMessageExceedsMaximum, permanent},
		{nats.ErrDisconnected, retry},
		{nats.ErrTimeout, retry},
		{context.DeadlineExceeded, retry},
		{context.Canceled, retry},
		{jetstream.ErrInvalidJSAck, retry},
		{errClosed, retry},
		{errors.New("something new"), retry},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			for _, err := range []error{tt.err, fmt.Errorf("publish: %w", tt.err)} {
				if got, _ := outbox.Classify(classify(err)); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			}
		})
	}
	if classify(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestOnlyAStreamsAnswerIsAnAcknowledgement(t *testing.T) {
	tests := []struct {
		name, data string
		status     string
		want       error
		duplicate  bool
	}{
		{"stored", `{"stream":"S","seq":1}`, "", nil, false},
		{"stored before", `{"stream":"S","seq":1,"duplicate":true}`, "", nil, true},
		{"with a domain", `{"stream":"S","domain":"d","seq":9}`, "", nil, false},
		{"refused", `{"error":{"code":400,"err_code":10054,"description":"too large"},"stream":"S","seq":0}`, "", &jetstream.APIError{ErrorCode: 10054}, false},
		{"nobody", "", "503", jetstream.ErrNoStreamResponse, false},
		{"empty", "", "", jetstream.ErrInvalidJSAck, false},
		{"another service's", `{"ok":true}`, "", jetstream.ErrInvalidJSAck, false},
		{"no sequence", `{"stream":"S"}`, "", jetstream.ErrInvalidJSAck, false},
		{"no stream", `{"seq":3}`, "", jetstream.ErrInvalidJSAck, false},
		{"not json", "+OK", "", jetstream.ErrInvalidJSAck, false},
		{"an ack of a consumer", "+ACK", "", jetstream.ErrInvalidJSAck, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			msg := &nats.Msg{Data: []byte(tt.data)}
			if tt.status != "" {
				msg.Header = nats.Header{"Status": {tt.status}}
			}

			duplicate, err := acknowledgement(msg)

			if duplicate != tt.duplicate || !errors.Is(err, tt.want) {
				t.Errorf("duplicate %v, %v; want %v, %v", duplicate, err, tt.duplicate, tt.want)
			}
		})
	}
}
