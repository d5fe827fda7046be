package contract

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/go-outbox/outbox"
)

// scheme makes file names into the URLs by which schemas refer to each other.
const scheme = "contract:///"

// load compiles every schema at the top of fsys.
func load(fsys fs.FS, policy outbox.TopicPolicy) (map[string]*Schema, error) {
	l := newLoader(fsys)
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	schemas := make(map[string]*Schema, len(entries))
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		topic, ok := strings.CutSuffix(name, ".json")
		if !ok || entry.IsDir() {
			continue
		}
		if err := checkName(topic, policy); err != nil {
			errs = append(errs, schemaError(name, err))
			continue
		}
		s, err := l.compile(topic, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		schemas[topic] = s
	}
	return schemas, errors.Join(errs...)
}

// checkName accepts the version of a topic also where the policy has none.
func checkName(topic string, policy outbox.TopicPolicy) error {
	err := policy(topic)
	if base, n := splitVersion(topic); err != nil && n != 0 && policy(base) == nil {
		return nil
	}
	return err
}

// A loader reads schema files, within limits, and refuses everything else that a schema
// may refer to.
type loader struct {
	fsys     fs.FS // nil: there are no files
	compiler *jsonschema.Compiler
	files    int
	bytes    int
	formats  map[string]bool
}

func newLoader(fsys fs.FS) *loader {
	l := &loader{fsys: fsys, compiler: jsonschema.NewCompiler(), formats: make(map[string]bool)}
	l.compiler.DefaultDraft(jsonschema.Draft2020)
	l.compiler.AssertFormat() // drafts since 2019 would take every text for a date
	l.compiler.UseLoader(l)
	return l
}

// Load is the compiler's way to the schema files and to what they refer to.
func (l *loader) Load(url string) (any, error) {
	name, ours := strings.CutPrefix(url, scheme)
	if !ours || l.fsys == nil {
		return nil, errors.New("only files beside the schema, or below, can be referred to")
	}
	text, err := read(l.fsys, name)
	if err != nil {
		return nil, err
	}
	return l.decode(text)
}

func (l *loader) decode(text []byte) (any, error) {
	l.files++
	l.bytes += len(text)
	if l.files > maxFiles || l.bytes > maxTotal {
		return nil, fmt.Errorf("more than %d files or %d bytes", maxFiles, maxTotal)
	}
	doc, err := decode(text, maxDepth, maxValues)
	if err != nil {
		return nil, err
	}
	l.knowFormats(doc)
	return doc, nil
}

func (l *loader) compile(topic, file string) (*Schema, error) {
	compiled, err := l.compiler.Compile(scheme + file)
	if err != nil {
		return nil, schemaError(file, err)
	}
	if err := checkApplied(compiled); err != nil {
		return nil, schemaError(file, err)
	}
	depth, err := payloadDepth(compiled)
	if err != nil {
		return nil, schemaError(file, err)
	}
	q := newQuick(compiled, make(map[*jsonschema.Schema]*quick))
	return &Schema{topic: topic, compiled: compiled, quick: q, depth: depth}, nil
}

func read(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errTooLarge
	}
	return text, err
}

var errTooLarge = fmt.Errorf("is larger than %d bytes", maxFile)

// knowFormats makes formats that the validator does not check visible to Compare: for
// the readers of an event they mean as much as the others.
func (l *loader) knowFormats(doc any) {
	switch doc := doc.(type) {
	case []any:
		for _, v := range doc {
			l.knowFormats(v)
		}
	case map[string]any:
		if f, ok := doc["format"].(string); ok && !checked[f] && !l.formats[f] {
			l.formats[f] = true
			l.compiler.RegisterFormat(&jsonschema.Format{Name: f, Validate: func(any) error { return nil }})
		}
		for _, v := range doc {
			l.knowFormats(v)
		}
	}
}

// checked are the formats that the validator knows.
var checked = map[string]bool{
	"json-pointer": true, "relative-json-pointer": true, "uuid": true, "duration": true, "period": true,
	"ipv4": true, "ipv6": true, "hostname": true, "email": true, "date": true, "time": true, "date-time": true,
	"uri": true, "iri": true, "uri-reference": true, "iri-reference": true, "uri-template": true, "semver": true,
	"regex": true,
}

func schemaError(name string, err error) error {
	text := strings.ReplaceAll(reason(err), scheme, "")
	text = strings.TrimPrefix(text, "load "+name+": ") // the schema itself, not what it refers to
	return outbox.ErrInvalidConfig.With("contract "+clip(name), text)
}

// splitVersion splits shop.order.placed.v2 into its name and 2; the version is 0 when
// there is none.
func splitVersion(topic string) (string, int) {
	i := strings.LastIndex(topic, ".v")
	if i < 0 || i+2 == len(topic) || topic[i+2] == '0' {
		return topic, 0
	}
	n, err := strconv.ParseUint(topic[i+2:], 10, 31)
	if err != nil {
		return topic, 0
	}
	return topic[:i], int(n)
}
