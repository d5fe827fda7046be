package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A moment is a time on a command line: absolute, or a distance from now. Which way
// the distance goes is for the flag to say. It is a pflag.Value.
type moment struct {
	text     string
	at       time.Time
	distance time.Duration
}

func (m *moment) String() string { return m.text }
func (m *moment) Type() string   { return "time" }
func (m *moment) given() bool    { return m.text != "" }

// layouts of absolute times. Those without a zone are UTC, as all output is.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

func (m *moment) Set(text string) error {
	*m = moment{text: text}
	if text == "now" {
		return nil
	}
	if d, ok := parseDistance(text); ok {
		m.distance = d
		return nil
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			m.at = at
			return nil
		}
	}
	return errors.New("want a time such as 2026-11-15T06:00:00Z or 2026-11-15, or a distance such as 90s, 2h or 7d")
}

// parseDistance is time.ParseDuration that knows days and weeks.
func parseDistance(text string) (time.Duration, bool) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.Atoi(number)
			return time.Duration(n) * unit, err == nil && n >= 0 && n <= 10_000
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// ago is the moment with its distance before now.
func (m *moment) ago(now time.Time) time.Time { return m.resolve(now, -m.distance) }

// ahead is the moment with its distance after now.
func (m *moment) ahead(now time.Time) time.Time { return m.resolve(now, m.distance) }

func (m *moment) resolve(now time.Time, distance time.Duration) time.Time {
	switch {
	case !m.given():
		return time.Time{}
	case m.at.IsZero():
		return now.Add(distance)
	}
	return m.at
}

// relative: the moment depends on the clock.
func (m *moment) relative() bool { return m.given() && m.at.IsZero() }
