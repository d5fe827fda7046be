package webhooksink

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
)

func TestABodyIsReadFromTheStartEachTimeAndNotAfterItsRelease(t *testing.T) {
	lent := &body{payload: []byte("payload")}
	request := lent.request(t.Context(), &url.URL{Scheme: "https", Host: "example.com"}, http.Header{})

	for range 2 {
		again, err := request.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(again); err != nil || string(got) != "payload" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	begun := make([]byte, 3)
	if _, err := io.ReadFull(request.Body, begun); err != nil {
		t.Fatal(err)
	}

	lent.release()

	if n, err := request.Body.Read(begun); n != 0 || !errors.Is(err, errReleased) {
		t.Errorf("read %d bytes of a payload that was taken back: %v", n, err)
	}
}
