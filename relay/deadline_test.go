package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestADeadlineEndsLikeAnyContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withDeadline(t.Context(), time.Now().Add(time.Minute))
		defer d.release()
		if at, ok := d.Deadline(); !ok || time.Until(at) != time.Minute || d.Err() != nil {
			t.Fatalf("deadline %v, error %v", at, d.Err())
		}
		child, cancel := context.WithCancel(d) // somebody waits: now it has a timer
		defer cancel()
		<-child.Done()
		if !errors.Is(d.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("after its time: %v, its child %v", d.Err(), child.Err())
		}
	})
}

func TestADeadlineThatNobodyWaitedForIsOverAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withDeadline(t.Context(), time.Now().Add(time.Minute))
		<-time.After(2 * time.Minute)
		if !errors.Is(d.Err(), context.DeadlineExceeded) {
			t.Errorf("after its time: %v", d.Err())
		}
		d.release()
	})
}

func TestADeadlineEndsWithItsParentAndItsRelease(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	d := withDeadline(parent, time.Now().Add(time.Hour))
	if d.Value(key{}) != "value" {
		t.Error("the parent's value is lost")
	}
	cancel()
	<-d.Done()
	if !errors.Is(d.Err(), context.Canceled) {
		t.Errorf("after the parent's end: %v", d.Err())
	}

	d = withDeadline(t.Context(), time.Now().Add(time.Hour))
	d.release()
	<-d.Done()
	if !errors.Is(d.Err(), context.Canceled) {
		t.Errorf("after its release: %v", d.Err())
	}
}
