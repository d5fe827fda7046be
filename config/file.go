package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-outbox/outbox/compat"
)

// An entry is one value of the file and where it stands.
type entry struct {
	value string
	where string // file:line
}

// file reads the YAML file, if there is one, by our keys.
func (src Sources) file(c *Config) (map[string]entry, error) {
	path := src.File
	if path == "" {
		path = src.env(FileVariable)
	}
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid("configuration file", err.Error())
	}
	f := fileReader{name: filepath.Base(path), config: c, env: src.env, found: make(map[string]entry)}
	return f.found, f.read(text)
}

// A fileReader flattens a YAML document into entries. Everything it does not know
// is a mistake of the user's, reported with its line.
type fileReader struct {
	name   string
	config *Config
	env    func(string) string
	found  map[string]entry
	errs   []error
}

func (f *fileReader) read(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // an empty file
	case err != nil:
		return invalid(f.name, err.Error())
	}
	f.walk("", doc.Content[0], doc.Content[0].Line)
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		f.errs = append(f.errs, invalid(f.name, "holds more than one document"))
	}
	return errors.Join(f.errs...)
}

// walk reads the value of key, which stands in line.
func (f *fileReader) walk(key string, node *yaml.Node, line int) {
	switch key {
	case "sinks":
		f.sinks(node, line)
		return
	case "routes":
		f.routes(node, line)
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		if key != "" && !f.section(key) {
			f.unknown(key, line)
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if key != "" {
				name = key + "." + name
			}
			f.walk(name, node.Content[i+1], node.Content[i].Line)
		}
	case yaml.SequenceNode:
		f.list(key, node, line)
	case yaml.ScalarNode:
		if node.Tag != "!!null" || !f.section(key) {
			f.take(key, node.Value, node.Tag == "!!null", line)
		}
	default:
		f.fail(key, line, "anchors and aliases are not supported")
	}
}

func (f *fileReader) list(key string, node *yaml.Node, line int) {
	items := make([]string, len(node.Content))
	for i, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			f.fail(key, item.Line, "must be a plain list")
			return
		}
		items[i] = item.Value
	}
	if s, ok := byKey(key); ok {
		if _, list := s.bind(&Config{}).(listValue); !list {
			f.fail(key, line, "must be one value, got a list")
			return
		}
	}
	f.take(key, strings.Join(items, ","), false, line)
}

// take files one value under our key. A null value is known but unset.
func (f *fileReader) take(key, text string, null bool, line int) {
	ours := key
	if i := slices.IndexFunc(compat.Keys, func(k compat.Key) bool { return k.Name == key }); i >= 0 {
		foreign := compat.Keys[i]
		if foreign.Ours == "" {
			f.ignore(foreign, text, line)
			return
		}
		converted, err := foreign.Convert(text)
		if err != nil && !null {
			f.fail(key, line, err.Error())
			return
		}
		ours, text = foreign.Ours, converted
	} else if _, ok := byKey(key); !ok {
		f.unknown(key, line)
		return
	}
	if null || text == "" {
		return
	}
	if e, twice := f.found[ours]; twice {
		f.fail(key, line, "is set at "+e.where+" already")
		return
	}
	f.found[ours] = entry{text, f.where(line)}
}

// ignore accepts a foreign key that nothing here needs, but not nonsense in it.
func (f *fileReader) ignore(k compat.Key, text string, line int) {
	var d time.Duration
	if err := (durationValue{&d, time.Millisecond}).set(text); err != nil {
		f.fail(k.Name, line, err.Error())
		return
	}
	f.config.Notes = append(f.config.Notes, fmt.Sprintf("%s: %s has no effect: %s", f.where(line), k.Name, k.Note))
}

func (f *fileReader) unknown(key string, line int) {
	f.fail(key, line, strings.TrimSuffix(unknownKey(key, knownKeys()), "."))
}

// unknownKey says so, and which one was meant.
func unknownKey(key string, known []string) string {
	if near := nearest(key, known); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key."
}

func (f *fileReader) fail(key string, line int, text string) {
	if key == "" {
		key = "the document"
		text = "must be a mapping of keys to values"
	}
	f.errs = append(f.errs, invalid(f.where(line)+": "+key, text))
}

func (f *fileReader) where(line int) string { return fmt.Sprintf("%s:%d", f.name, line) }

// section reports whether some known key lies below key.
func (f *fileReader) section(key string) bool {
	return slices.ContainsFunc(knownKeys(), func(k string) bool { return strings.HasPrefix(k, key+".") })
}

func byKey(key string) (Setting, bool) {
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return Settings[i], true
}

func knownKeys() []string {
	keys := make([]string, 0, len(Settings)+len(compat.Keys))
	for _, s := range Settings {
		keys = append(keys, s.Key)
	}
	for _, k := range compat.Keys {
		keys = append(keys, k.Name)
	}
	return keys
}

// nearest returns the known key that a misspelt one most likely meant, or "".
func nearest(key string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(key, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many single-character edits lead from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
