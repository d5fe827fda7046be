package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// other is the label of everything beyond the bound.
const other = "other"

// maxLabel bounds a label value. Longer ones were not written through a gate.
const maxLabel = 255

// labels finds the series of a table and a second label, such as a topic, without a
// lock and without memory: the index is copied when it grows, which it does at most max
// times, plus once per table.
type labels[T any] struct {
	max   int
	make  func(table, value string) T
	index atomic.Pointer[index[T]]
	mu    sync.Mutex // held while the index grows
}

type index[T any] struct {
	named map[pair]T
	other map[string]T // by table
}

type pair struct{ table, value string }

func newLabels[T any](limit int, create func(table, value string) T) *labels[T] {
	l := &labels[T]{max: limit, make: create}
	l.index.Store(&index[T]{named: map[pair]T{}, other: map[string]T{}})
	return l
}

func (l *labels[T]) of(table, value string) T {
	in := l.index.Load()
	if v, ok := in.named[pair{table, value}]; ok {
		return v
	}
	if len(in.named) >= l.max || !presentable(value) {
		if v, ok := in.other[table]; ok {
			return v
		}
	}
	return l.grow(table, value)
}

func (l *labels[T]) grow(table, value string) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.index.Load()
	if v, ok := in.named[pair{table, value}]; ok {
		return v
	}
	// The index outlives the message, whose strings may be parts of a larger one.
	table = strings.Clone(table)
	if len(in.named) >= l.max || !presentable(value) {
		if v, ok := in.other[table]; ok {
			return v
		}
		v := l.make(table, other)
		l.index.Store(&index[T]{named: in.named, other: with(in.other, table, v)})
		return v
	}
	value = strings.Clone(value)
	v := l.make(table, value)
	l.index.Store(&index[T]{named: with(in.named, pair{table, value}, v), other: in.other})
	return v
}

// presentable reports whether a value can be a label of its own. Rows can be written
// without a gate, with any topic.
func presentable(value string) bool {
	return value != other && len(value) <= maxLabel && utf8.ValidString(value)
}

func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	grown := make(map[K]V, len(m)+1)
	maps.Copy(grown, m)
	grown[key] = value
	return grown
}

// each calls f for every series, by table.
func (l *labels[T]) each(f func(table string, v T)) {
	in := l.index.Load()
	for p, v := range in.named {
		f(p.table, v)
	}
	for table, v := range in.other {
		f(table, v)
	}
}
