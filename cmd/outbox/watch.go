package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

// minWatch bounds how often a database is asked by somebody who only looks.
const minWatch = 500 * time.Millisecond

// watch prints the status again and again until ctx ends, which is its ordinary end:
// on a terminal in place, elsewhere one below the other.
func (a *app) watch(ctx context.Context, stores []store, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before []outbox.Stats
	for {
		all, err := readStats(ctx, stores)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := a.frame(all, trends(before, all), every); err != nil {
			return err
		}
		before = all
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// frame prints one state of the screen.
func (a *app) frame(all []outbox.Stats, trends map[string]string, every time.Duration) error {
	if a.json {
		return a.printStatus(a.out, all, nil)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s, every %s; end with Ctrl-C\n\n", all[0].Now.UTC().Format(time.RFC3339), every)
	if err := a.printStatus(&text, all, trends); err != nil {
		return err
	}
	if !interactive(a.out) {
		text.WriteByte('\n')
		_, err := a.out.Write(text.Bytes())
		return err
	}
	width, height := screen(a.out)
	return redraw(a.out, text.String(), width, height)
}

// redraw replaces what the screen shows. Lines are cut and dropped rather than
// scrolled, except the last, which is what to do.
func redraw(w io.Writer, text string, width, height int) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if n := len(lines); n > height-1 {
		lines = append(lines[:max(height-2, 0):max(height-2, 0)], lines[n-1])
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(ellipsis(line, width))
		b.WriteString("\x1b[K\r\n")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(w, b.String())
	return err
}

// trends say by how much each backlog has changed a second since the frame before.
func trends(before, after []outbox.Stats) map[string]string {
	then := make(map[string]outbox.Stats, len(before))
	for _, s := range before {
		then[s.Table] = s
	}
	all := make(map[string]string, len(after))
	for _, s := range after {
		b, ok := then[s.Table]
		elapsed := s.Now.Sub(b.Now).Seconds()
		if !ok || elapsed <= 0 || s.Capped {
			continue
		}
		all[s.Table] = fmt.Sprintf("%+.0f/s", float64(s.Pending-b.Pending)/elapsed)
	}
	return all
}
