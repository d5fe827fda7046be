package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// A profiler writes a CPU profile of each of our drains: file, file.2, file.3 and so
// on. Without a file it does nothing. `go tool pprof` reads all of them together.
type profiler struct {
	file string
	made int
}

// profile is the command line's. Only drains of our own relay, in this process, are
// profiled, one at a time.
var profile profiler

func (p *profiler) start(s system) (stop func() error, err error) {
	if p.file == "" || s.name != "outbox" {
		return func() error { return nil }, nil
	}
	p.made++
	name := p.file
	if p.made > 1 {
		name = fmt.Sprintf("%s.%d", p.file, p.made)
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}
