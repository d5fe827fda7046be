package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// decode reads a JSON document within limits. Numbers stay as they are written: as
// floats, large ids would be compared wrongly. A json.Decoder does that too, but it
// takes longer than the rest of a check and cannot be limited.
func decode(text []byte, depth, values int) (any, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("is not valid JSON: %w", syntaxError(text))
	}
	d := decoder{text: text, depth: depth, values: values}
	return d.value(0)
}

// A decoder reads a text that is known to be JSON. values counts down.
type decoder struct {
	text          []byte
	pos           int
	depth, values int
}

func (d *decoder) value(depth int) (any, error) {
	if depth > d.depth {
		return nil, fmt.Errorf("is nested more than %d deep", d.depth)
	}
	if d.values--; d.values < 0 {
		return nil, errors.New("has too many values")
	}
	switch d.next() {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.string()
	case 't':
		d.pos += len("true")
		return true, nil
	case 'f':
		d.pos += len("false")
		return false, nil
	case 'n':
		d.pos += len("null")
		return nil, nil
	}
	return d.number()
}

// next is the next byte that is not space; it stays unread.
func (d *decoder) next() byte {
	for ; ; d.pos++ {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
}

func (d *decoder) object(depth int) (any, error) {
	object := make(map[string]any)
	d.pos++
	for d.next() != '}' {
		name, err := d.string()
		if err != nil {
			return nil, err
		}
		d.next()
		d.pos++ // the colon
		if object[name], err = d.value(depth + 1); err != nil {
			return nil, at(name, err)
		}
		d.comma()
	}
	d.pos++
	return object, nil
}

func (d *decoder) array(depth int) (any, error) {
	array := []any{}
	d.pos++
	for d.next() != ']' {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, at(strconv.Itoa(len(array)), err)
		}
		array = append(array, v)
		d.comma()
	}
	d.pos++
	return array, nil
}

func (d *decoder) comma() {
	if d.next() == ',' {
		d.pos++
	}
}

func (d *decoder) string() (string, error) {
	start := d.pos
	plain := true
	for d.pos++; d.text[d.pos] != '"'; d.pos++ {
		if d.text[d.pos] == '\\' {
			plain = false
			d.pos++
		}
	}
	d.pos++
	inner := d.text[start+1 : d.pos-1]
	if plain && utf8.Valid(inner) {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(d.text[start:d.pos], &s)
	return s, err
}

func (d *decoder) number() (any, error) {
	start := d.pos
	for d.pos < len(d.text) && bytes.IndexByte([]byte("+-.0123456789eE"), d.text[d.pos]) >= 0 {
		d.pos++
	}
	n := string(d.text[start:d.pos])
	return json.Number(n), checkNumber(n)
}

// syntaxError is where a text stops being JSON. It does not quote.
func syntaxError(text []byte) error {
	var doc any
	err := json.Unmarshal(text, &doc)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("syntax error at offset %d", syntax.Offset)
	}
	return errors.New("it cannot be read")
}
