package torture

import (
	"testing"
	"time"
)

// What a process with a wrong clock has logged is judged by the right one.
func TestLinesLoggedByAWrongClockAreSetRight(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	r := &Run{clocks: []wrongClock{
		{process: "relay-1.1", step: 3 * time.Hour, from: began.Add(10 * time.Second), to: began.Add(20 * time.Second)},
		{process: "relay-1.1", step: -5 * time.Hour, from: began.Add(30 * time.Second)},
	}}
	at := func(process string, logged time.Duration) time.Duration {
		return r.rightTime(process, began.Add(logged)).Sub(began)
	}
	for _, tt := range []struct {
		process      string
		logged, want time.Duration
	}{
		{"relay-1.1", 5 * time.Second, 5 * time.Second},
		{"relay-1.1", 3*time.Hour + 15*time.Second, 15 * time.Second},
		{"relay-1.1", 25 * time.Second, 25 * time.Second},
		{"relay-1.1", -5*time.Hour + 40*time.Second, 40 * time.Second},
		{"relay-2.1", 15 * time.Second, 15 * time.Second},
	} {
		if got := at(tt.process, tt.logged); got != tt.want {
			t.Errorf("%s logged at %s: got %s, want %s", tt.process, tt.logged, got, tt.want)
		}
	}
}
