package console

import (
	"fmt"
	"net/http"
	"time"
)

const (
	maxStreams = 64
	// streamFor ends a stream; browsers reconnect, and are authenticated again.
	streamFor = 10 * time.Minute
)

// events tells a browser when to look again. Each stream samples the tables on its own
// request's goroutine: while nobody watches, nobody asks the database.
func (c *Console) events(v *view) {
	if err := v.enter(RoleViewer); err != nil {
		if v.Who == nil { // an EventSource cannot log in: no content makes it stop trying
			c.refusals.add("stream_unauthenticated")
			v.w.WriteHeader(http.StatusNoContent)
			return
		}
		v.fail(err)
		return
	}
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		v.fail(refused(http.StatusServiceUnavailable, "streams", "Too many people are watching."))
		return
	}
	every := c.cfg.Every
	if v.param("fast") != "" {
		every = min(every, time.Second)
	}
	c.stream(v, every)
}

func (c *Console) stream(v *view, every time.Duration) {
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies should pass it on at once
	out := http.NewResponseController(v.w)
	tick := time.NewTicker(every)
	defer tick.Stop()
	end := time.NewTimer(streamFor)
	defer end.Stop()
	for n := 0; ; n++ {
		_ = out.SetWriteDeadline(time.Now().Add(10 * time.Second)) // not every writer has one
		if _, err := fmt.Fprintf(v.w, "id: %d\nevent: tick\ndata: %d\n\n", n, n); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-tick.C:
			c.samples.lookAll(v.ctx())
		case <-end.C:
			return
		case <-c.done:
			return
		case <-v.ctx().Done():
			return
		}
	}
}
