// Package contract holds events to JSON Schemas that live in the repository of the
// team that produces them.
//
// A directory has one schema per topic version, shop.order.placed.v1.json. A
// [Registry] compiles them once; its Check refuses, before any SQL runs, a message
// whose payload does not satisfy the schema of its topic. [Compare] tells whether a
// change of a schema breaks its readers or its writers and so needs the next vN.
// [Upcasters] let a consumer read old versions as the newest one.
//
// A contract speaks of the shape of a payload. It does not see rows that are written
// around the gate, by other programs or plain SQL, and it cannot know whether a field
// that kept its type has kept its meaning. Compare errs on the side of a new version:
// what it cannot judge is breaking.
package contract

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/go-outbox/outbox"
)

// Config describes a Registry. The zero value lets topics without a schema pass.
type Config struct {
	// RefuseUnknown refuses messages whose topic has no schema. Otherwise they
	// pass unchecked, so that contracts can be introduced one by one.
	RefuseUnknown bool
	// Topics is the policy that the names of the schemas must follow, with or
	// without a trailing .vN. Defaults to outbox.StrictTopics.
	Topics outbox.TopicPolicy
}

// A Registry holds the compiled contracts of a producer. Make it with New or Open; it
// does not change afterwards and is safe for concurrent use.
type Registry struct {
	cfg     Config
	schemas map[string]*Schema
}

// Open is New for a directory. References cannot leave it, not even through symbolic
// links.
func Open(dir string, cfg Config) (*Registry, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open contracts: %w", err)
	}
	defer root.Close()
	return New(root.FS(), cfg)
}

// New compiles the contracts of a file system, such as an embed.FS: every *.json file
// at its top is the schema of the topic it is named after. Files in subdirectories are
// shared parts that schemas refer to by relative path. It reports all mistakes at once.
func New(fsys fs.FS, cfg Config) (*Registry, error) {
	if cfg.Topics == nil {
		cfg.Topics = outbox.StrictTopics
	}
	schemas, err := load(fsys, cfg.Topics)
	if err != nil {
		return nil, fmt.Errorf("load contracts: %w", err)
	}
	return &Registry{cfg: cfg, schemas: schemas}, nil
}

// Topics lists the topics that have a contract, in order.
func (r *Registry) Topics() []string { return slices.Sorted(maps.Keys(r.schemas)) }

// Schema returns the contract of a topic, or nil.
func (r *Registry) Schema(topic string) *Schema { return r.schemas[topic] }

// Check is an [outbox.Gate]'s Check: it returns an error that is [outbox.ErrContract]
// when msg does not satisfy the contract of its topic. The error names places in the
// payload, never the values found there.
//
// A topic that does not end in .vN and has no schema of that name is looked up with
// the message's event version: stock.move.done of version 2 is stock.move.done.v2.
func (r *Registry) Check(_ context.Context, msg *outbox.Message) error {
	s := r.find(msg.Topic, msg.EventVersion)
	switch {
	case s == nil && r.cfg.RefuseUnknown:
		return outbox.ErrContract.With("topic", fmt.Sprintf("%q has no contract; add %s.json", clip(msg.Topic), clip(msg.Topic)))
	case s == nil:
		return nil
	case !outbox.IsJSON(msg.ContentType):
		return outbox.ErrContract.With("content_type", "is not JSON, but "+s.topic+" has a JSON contract")
	}
	return s.Validate(msg.Payload)
}

func (r *Registry) find(topic string, version int) *Schema {
	if s := r.schemas[topic]; s != nil || version == 0 {
		return s
	}
	if _, n := splitVersion(topic); n != 0 {
		return nil
	}
	return r.schemas[topic+".v"+strconv.Itoa(version)]
}
