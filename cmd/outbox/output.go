package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON prints v as one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// columns prints rows under a heading, aligned.
type columns struct{ tw *tabwriter.Writer }

func newColumns(w io.Writer, heading ...string) columns {
	c := columns{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(heading) > 0 {
		c.row(heading...)
	}
	return c
}

func (c columns) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	fmt.Fprintln(c.tw, strings.Join(cells, "\t"))
}

func (c columns) flush() error { return c.tw.Flush() }

// printable keeps what an event says from steering the terminal it is shown on.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// timestamp is a time in JSON and text: UTC, or nothing when it is NULL.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
