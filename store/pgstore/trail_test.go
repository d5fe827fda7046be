package pgstore

import (
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

func place(at time.Time) outbox.DueCursor { return outbox.DueCursor{AvailableAt: at, Sequence: 1} }

// readTo moves a trail as a read would that found its lap's end and what was asked.
func readTo(t *trail, at, clock time.Time, took time.Duration, full bool) (late int) {
	late = t.lap(10, time.Now())
	got := 1
	if full {
		got = 10
	}
	t.moved(stretch{asked: 10, got: got, end: place(at)}, stretch{asked: late}, false, clock, took)
	return late
}

func TestATrailLapsWithEveryReadWhileThatIsCheap(t *testing.T) {
	var tr trail
	now := time.Now()
	if readTo(&tr, now, now, time.Millisecond, false) != 0 {
		t.Error("a lap begins before anything was passed")
	}
	for range 3 {
		if readTo(&tr, now, now, time.Millisecond, false) == 0 {
			t.Error("no lap")
		}
	}
}

func TestATrailRestsAfterExpensiveLapsButNotAfterOne(t *testing.T) {
	var tr trail
	now := time.Now()
	for i, want := range []int{0, 10, 10, 0} {
		if got := readTo(&tr, now, now, time.Minute, false); got != want {
			t.Errorf("read %d asks for %d late messages, want %d", i, got, want)
		}
	}
	if tr.rest != lapRest {
		t.Errorf("rests for %v, want %v", tr.rest, lapRest)
	}
}

func TestATrailDoesNotLapWhileItIsBusy(t *testing.T) {
	var tr trail
	now := time.Now()
	for range 3 {
		if readTo(&tr, now, now, time.Millisecond, true) != 0 {
			t.Error("a lap begins although there is more ahead")
		}
	}
	tr.since = tr.since.Add(-lapBusy)
	if readTo(&tr, now, now, time.Millisecond, true) == 0 {
		t.Error("no lap for longer than lapBusy")
	}
}

func TestATrailStartsOverWhenTheClockWasSetBack(t *testing.T) {
	var tr trail
	now := time.Now()
	readTo(&tr, now, now, time.Millisecond, false)
	tr.moved(stretch{asked: 10}, stretch{}, false, now.Add(-time.Second), time.Millisecond)
	if tr.at != (outbox.DueCursor{}) {
		t.Errorf("goes on at %v, where nothing will be for a second", tr.at.AvailableAt)
	}
}

func TestVersionOfATopic(t *testing.T) {
	for topic, want := range map[string]int{
		"shop.order.placed.v1": 1, "a.v12": 12, "a.v123456789": 123456789, "a.v1234567890": 0,
		"a.v0": 0, "a.v01": 0, "a.v": 0, "a.v1x": 0, "a": 0, "": 0, "v1": 0,
	} {
		if got := version(topic); got != want {
			t.Errorf("version of %q is %d, want %d", topic, got, want)
		}
	}
}
