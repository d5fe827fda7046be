package contract

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/go-outbox/outbox"
)

// A Schema is the compiled contract of one topic version. It comes from a [Registry] or
// from [Parse] and is safe for concurrent use.
type Schema struct {
	topic    string
	compiled *jsonschema.Schema
	quick    *quick
	depth    int // of payloads
}

// Parse compiles a single schema that refers to no other file. The name is for errors.
func Parse(name string, text []byte) (*Schema, error) {
	l := newLoader(nil)
	if len(text) > maxFile {
		return nil, schemaError(name, errTooLarge)
	}
	doc, err := l.decode(text)
	if err != nil {
		return nil, schemaError(name, err)
	}
	file := url.PathEscape(name)
	if err := l.compiler.AddResource(scheme+file, doc); err != nil {
		return nil, schemaError(name, err)
	}
	return l.compile(name, file)
}

// OpenFile compiles the schema in one file. It may refer to files beside it or in
// subdirectories.
func OpenFile(file string) (*Schema, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("open contract: %w", err)
	}
	defer root.Close()
	name := filepath.Base(file)
	return newLoader(root.FS()).compile(strings.TrimSuffix(name, ".json"), name)
}

// Topic is the topic, or the name that was given to Parse.
func (s *Schema) Topic() string { return s.topic }

// Validate reports as [outbox.ErrContract] where a payload violates the schema. The
// error names places in the payload, never the values found there.
func (s *Schema) Validate(payload []byte) error {
	doc, err := decode(payload, s.depth, len(payload))
	if err != nil {
		return outbox.ErrContract.With("payload", s.topic+": "+err.Error())
	}
	if s.quick.accepts(doc) {
		return nil
	}
	if err := s.compiled.Validate(doc); err != nil {
		return outbox.ErrContract.With("payload", s.topic+": "+explain(err))
	}
	return nil
}
