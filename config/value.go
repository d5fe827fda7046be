package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A value is a field of Config that can be read from text and printed again.
type value interface {
	set(text string) error
	String() string
}

type textValue struct{ p *string }

func (v textValue) String() string { return *v.p }

func (v textValue) set(text string) error {
	*v.p = text
	return nil
}

type choiceValue struct {
	p       *string
	choices []string
}

func (v choiceValue) String() string { return *v.p }

func (v choiceValue) set(text string) error {
	if !slices.Contains(v.choices, text) {
		return fmt.Errorf("must be one of %s, got %q", strings.Join(v.choices, ", "), text)
	}
	*v.p = text
	return nil
}

type boolValue struct{ p *bool }

func (v boolValue) String() string { return strconv.FormatBool(*v.p) }

func (v boolValue) set(text string) error {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("must be true or false, got %q", text)
	}
	*v.p = b
	return nil
}

type intValue struct {
	p        *int
	min, max int
}

func (v intValue) String() string { return strconv.Itoa(*v.p) }

func (v intValue) set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.min || n > v.max {
		return fmt.Errorf("must be a number from %d to %d, got %q", v.min, v.max, text)
	}
	*v.p = n
	return nil
}

type durationValue struct {
	p   *time.Duration
	min time.Duration
}

// String drops the zero units that make time.Duration print "168h0m0s".
func (v durationValue) String() string {
	s := v.p.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (v durationValue) set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("must be a duration such as 500ms, 1s or 168h, got %q", text)
	case d < v.min && v.min == 0:
		return fmt.Errorf("must not be negative, got %s", text)
	case d < v.min:
		return fmt.Errorf("must be at least %s, got %s", v.min, text)
	}
	*v.p = d
	return nil
}

type listValue struct{ p *[]string }

func (v listValue) String() string { return strings.Join(*v.p, ",") }

func (v listValue) set(text string) error {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
			continue
		case slices.Contains(list, item):
			return fmt.Errorf("lists %q twice", item)
		}
		list = append(list, item)
	}
	*v.p = list
	return nil
}
