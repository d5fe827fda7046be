package writersink

import (
	"errors"
	"io"
	"testing"

	"github.com/go-outbox/outbox"
)

func TestAFailedSyncFailsItsMessagesAndTheNextRound(t *testing.T) {
	lost := errors.New("input/output error")
	results := []error{nil, lost, nil, nil}
	s := New(io.Discard)
	s.fsync = func() (err error) {
		err, results = results[0], results[1:]
		return err
	}
	dispatch := func() error {
		return s.Dispatch(t.Context(), outbox.DispatchedMessage{Payload: []byte("1")})
	}

	if err := dispatch(); err != nil {
		t.Fatalf("a good sync: %v", err)
	}
	if err := dispatch(); !errors.Is(err, lost) {
		t.Errorf("a failed sync: %v, want %v", err, lost)
	}
	if err := dispatch(); err == nil {
		t.Error("the sync after a failed one vouches for pages that may be lost")
	}
	if err := dispatch(); err != nil {
		t.Errorf("a good sync after a good one: %v", err)
	}
}
