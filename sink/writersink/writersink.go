// Package writersink writes messages as JSON lines, to standard output, a file or
// any other io.Writer.
//
// Every message is one line in one Write, so lines of concurrent dispatches never
// mix, and a message counts as delivered only when its line was written completely
// and, to a file, synced to disk. The lines are JSON whatever the payload is: a
// payload that is not JSON appears as payload_base64.
//
// A line is not the stored message byte for byte: insignificant white space in a
// JSON payload is removed. After an error a line may appear twice or be cut off; a
// cut-off line ends where the next one begins, so readers lose one line, not two.
// Nobody confirms that a reader at the other end of a pipe has understood anything.
package writersink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/go-outbox/outbox"
)

var (
	_ outbox.Dispatcher      = (*Sink)(nil)
	_ outbox.BatchDispatcher = (*Sink)(nil)
)

// A Sink writes messages to one writer. Create it with New or OpenFile; the zero
// value is not usable. It is safe for concurrent use.
type Sink struct {
	file  *os.File     // nil unless OpenFile made the sink
	fsync func() error // nil unless file is on a disk: devices and pipes cannot sync

	mu    sync.Mutex
	w     io.Writer
	torn  bool   // the writer's last line has no end
	round *round // what is written and not being synced yet

	syncing sync.Mutex
	suspect bool // the last sync failed
}

// A round is the batches that share one sync: all that were written while the sync
// before it ran.
type round struct {
	done chan struct{}
	err  error
}

// New returns a sink that writes to w. It never closes or syncs w.
func New(w io.Writer) *Sink { return &Sink{w: w} }

// OpenFile returns a sink that appends to the file at path, which it creates when
// it is missing, readable by its owner only. A message counts as delivered when the
// file has been synced; concurrent batches share a sync. Devices and pipes are written to as
// they are. Close the sink when it is done.
func OpenFile(path string) (*Sink, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	s := &Sink{file: f, w: f}
	if err := s.inspect(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sink: %w", err), f.Close())
	}
	return s, nil
}

// inspect learns what the file is, and whether a crash left its last line torn.
func (s *Sink) inspect() error {
	info, err := s.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	s.fsync = s.file.Sync
	if info.Size() == 0 {
		return nil
	}
	last := make([]byte, 1)
	_, err = s.file.ReadAt(last, info.Size()-1)
	s.torn = last[0] != '\n'
	return err
}

// Close closes the file of a sink that OpenFile made. For others it does nothing.
func (s *Sink) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Dispatch writes one message. Every error is worth a retry.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	return s.DispatchBatch(ctx, []outbox.DispatchedMessage{msg})[0]
}

// DispatchBatch writes the messages in order. A line that cannot be written fails
// alone; a sync that fails fails them all.
func (s *Sink) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	r, first := s.writeAll(ctx, msgs, errs)
	if r == nil {
		return errs
	}
	if first {
		s.sync(r)
	}
	<-r.done
	if r.err != nil {
		for i := range errs {
			errs[i] = errors.Join(errs[i], r.err)
		}
	}
	return errs
}

// writeAll writes the messages and joins the round that will sync them, if they need
// that. The first to join a round syncs it.
func (s *Sink) writeAll(ctx context.Context, msgs []outbox.DispatchedMessage, errs []error) (r *round, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range msgs {
		if errs[i] = ctx.Err(); errs[i] == nil {
			errs[i] = s.write(&msgs[i])
		}
	}
	if s.fsync == nil {
		return nil, false
	}
	if first = s.round == nil; first {
		s.round = &round{done: make(chan struct{})}
	}
	return s.round, first
}

func (s *Sink) sync(r *round) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	s.round = nil // who writes from now on may be too late for this sync
	s.mu.Unlock()

	err := s.fsync()
	if err == nil && s.suspect {
		// The kernel reports lost pages once, and may have lost some of this
		// round's with those of the round before.
		err = errors.New("the sync before failed")
		s.suspect = false
	} else {
		s.suspect = err != nil
	}
	if err != nil {
		r.err = fmt.Errorf("sync sink: %w", err)
	}
	close(r.done)
}

func (s *Sink) write(msg *outbox.DispatchedMessage) error {
	text, err := encode(msg, s.torn)
	if err != nil {
		return err
	}
	n, err := s.w.Write(text)
	switch {
	case n > 0 && n < len(text):
		s.torn = true
	case n == len(text):
		s.torn = false
	}
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return nil
}

// line is the JSON of a message. Its names are fixed: scripts rely on them.
type line struct {
	Table         string            `json:"table"`
	TenantID      string            `json:"tenant_id"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key"`
	EventID       string            `json:"event_id"`
	AggregateType string            `json:"aggregate_type,omitempty"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	EventType     string            `json:"event_type,omitempty"`
	EventVersion  int               `json:"event_version,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	TraceState    string            `json:"tracestate,omitempty"`
	Sequence      int64             `json:"sequence"`
	Attempts      int               `json:"attempts"`
	Headers       map[string]string `json:"headers"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
}

// encode returns the message's line; when the one before it was torn, that one is
// ended first.
func encode(msg *outbox.DispatchedMessage, torn bool) ([]byte, error) {
	m := &msg.Meta
	l := line{
		Table: m.Table, TenantID: m.TenantID, Topic: m.Topic, Key: m.Key, EventID: m.EventID.String(),
		AggregateType: m.AggregateType, AggregateID: m.AggregateID, EventType: m.EventType, EventVersion: m.EventVersion,
		TraceParent: m.TraceParent, TraceState: m.TraceState, Sequence: m.Sequence, Attempts: m.Attempts, Headers: m.Headers,
	}
	if l.Headers == nil {
		l.Headers = map[string]string{}
	}
	if outbox.IsJSON(m.ContentType) && json.Valid(msg.Payload) && utf8.Valid(msg.Payload) {
		l.Payload = msg.Payload
	} else {
		l.PayloadBase64 = msg.Payload
	}

	var b bytes.Buffer
	b.Grow(256 + len(msg.Payload))
	if torn {
		b.WriteByte('\n')
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a payload's <, > and & are nobody's markup here
	if err := enc.Encode(&l); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b.Bytes(), nil
}
