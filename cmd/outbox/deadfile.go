package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// verbImport is how an import is recorded in the audit trail.
const verbImport outbox.Verb = "import"

// maxLine bounds a line of an import: the largest payload, in base64, and room for
// the rest.
const maxLine = 64 << 20

func (a *app) deadExportCommand() *cobra.Command {
	var sel selection
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write dead messages to a file (- is standard output), as JSON lines",
		Long: "Write dead messages with their payloads to a new file that only you can read (- is standard output), one JSON\n" +
			"object per line. They stay in the table: `outbox purge --status dead` deletes them afterwards.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sel.check(); err != nil {
				return err
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return a.deadExport(cmd.Context(), s.stores, sel, args[0])
		},
	}
	sel.flags(a, cmd)
	return cmd
}

func (a *app) deadExport(ctx context.Context, stores []store, sel selection, path string) error {
	out, done, err := a.create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	total := 0
	for _, s := range stores {
		n, err := exportTable(ctx, s, sel, buffered)
		total += n
		if err != nil {
			return errors.Join(fmt.Errorf("export %s: %w", s.Table(), err), buffered.Flush(), done())
		}
	}
	if err := errors.Join(buffered.Flush(), done()); err != nil {
		return err
	}
	a.warnf("exported %d dead messages; they are still in the table", total)
	return nil
}

// create makes a file that must not exist: an export never overwrites another.
func (a *app) create(path string) (w io.Writer, done func() error, err error) {
	if path == "-" {
		return a.out, func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, usagef("%s exists: an export does not overwrite a file", printable(path))
	}
	if err != nil {
		return nil, nil, err
	}
	return f, func() error { return errors.Join(f.Sync(), f.Close()) }, nil
}

// exportTable writes the dead messages of a table, the oldest first.
func exportTable(ctx context.Context, s store, sel selection, w io.Writer) (n int, err error) {
	sel.status = string(outbox.StatusDead)
	f, err := sel.filter(ctx, s)
	if err != nil {
		return 0, err
	}
	f.OldestFirst, f.Limit = true, outbox.MaxPage
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		page, err := s.List(ctx, f)
		if err != nil {
			return n, err
		}
		for _, listed := range page.Records {
			r, err := s.Get(ctx, listed.EventID) // lists have no payloads
			if errors.Is(err, outbox.ErrNotFound) {
				continue // purged meanwhile
			}
			if err != nil {
				return n, err
			}
			line := exported{message: newMessage(s.Table(), r, page.Now)}
			line.setPayload(r.Payload)
			if err := enc.Encode(line); err != nil {
				return n, err
			}
			n++
		}
		if f.After = page.Next; page.Next == 0 {
			return n, nil
		}
	}
}

// exported is a line of an export. Its names are fixed.
type exported struct {
	message
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
}

// setPayload keeps JSON readable. Where that costs its spaces, and for everything
// else, the bytes themselves are kept too.
func (e *exported) setPayload(payload []byte) {
	e.Payload, e.PayloadBase64 = splitPayload(payload)
	var compact bytes.Buffer
	if e.Payload != nil && (json.Compact(&compact, payload) != nil || !bytes.Equal(compact.Bytes(), payload)) {
		e.PayloadBase64 = payload
	}
}

// enqueueable is the message that the line was, as if it were new.
func (e *exported) enqueueable() (outbox.Message, error) {
	msg := outbox.Message{
		Topic: e.Topic, Key: e.Key, EventID: e.EventID, TenantID: e.TenantID, Headers: e.Headers, ContentType: e.ContentType,
		AggregateType: e.AggregateType, AggregateID: e.AggregateID, EventType: e.EventType, EventVersion: e.EventVersion,
		TraceParent: e.TraceParent, TraceState: e.TraceState, Payload: e.PayloadBase64,
	}
	if msg.Payload == nil {
		msg.Payload = e.Payload
	}
	switch {
	case e.EventID == uuid.Nil:
		return msg, errors.New("has no event_id")
	case e.Topic == "":
		return msg, errors.New("has no topic")
	case len(msg.Payload) == 0:
		return msg, errors.New("has no payload")
	}
	return msg, nil
}

func (a *app) deadImportCommand() *cobra.Command {
	var who author
	var g guard
	var preview bool
	cmd := &cobra.Command{
		Use:   "import FILE --reason TEXT",
		Short: "Enqueue the messages of an export (- is standard input), each under its own event id",
		Long: "Enqueue the messages of an export in the table, each under its own event id, to be delivered as new ones are. Those\n" +
			"whose event id the table has already are skipped and reported, so that an import can be repeated. Where\n" +
			envVariable + " is set, --env has to name the same environment.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := who.complete(a, cmd); err != nil {
				return err
			}
			if !preview {
				if err := g.here(a); err != nil {
					return err
				}
			}
			return a.deadImport(cmd, args[0], who, preview)
		},
	}
	who.flags(cmd)
	cmd.Flags().StringVar(&g.env, "env", "", "the environment that is meant; must be what "+envVariable+" says, where that is set")
	cmd.Flags().BoolVar(&preview, "dry-run", false, "say what would happen and change nothing")
	return cmd
}

func (a *app) deadImport(cmd *cobra.Command, path string, who author, preview bool) error {
	in, err := a.openInput(cmd, path)
	if err != nil {
		return err
	}
	defer in.Close()
	s, st, err := a.openOne(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	imp := importer{app: a, s: st, preview: preview}
	err = imp.read(cmd.Context(), in)
	if imp.Imported > 0 && !preview {
		err = errors.Join(err, imp.record(context.WithoutCancel(cmd.Context()), who))
	}
	return errors.Join(imp.print(), err)
}

func (a *app) openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(path)
}

// An enqueuer is a store that takes messages outside of a caller's transaction.
type enqueuer interface {
	EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error)
}

// An importer enqueues what an export holds. Its JSON names are fixed.
type importer struct {
	app     *app
	s       store
	preview bool

	Imported   int `json:"imported"`
	Duplicates int `json:"duplicates"`
	Conflicts  int `json:"conflicts"`
}

// read imports line by line. It stops at the first line that it does not understand:
// what was imported before is skipped when the file is imported again.
func (i *importer) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := i.line(ctx, lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func (i *importer) line(ctx context.Context, text []byte) error {
	var e exported
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("is not a line of an export: %w", err)
	}
	msg, err := e.enqueueable()
	if err != nil {
		return err
	}
	existing, err := i.s.Get(ctx, msg.EventID)
	switch {
	case err == nil:
		i.Duplicates++
		i.app.warnf("skipped %s: %s has it already, as sequence %d, %s", msg.EventID, i.s.Table(), existing.Sequence, existing.Status(time.Now()))
		return nil
	case !errors.Is(err, outbox.ErrNotFound):
		return err
	case i.preview:
		i.Imported++
		return nil
	}
	return i.enqueue(ctx, msg)
}

func (i *importer) enqueue(ctx context.Context, msg outbox.Message) error {
	q, ok := i.s.(enqueuer)
	if !ok {
		return fmt.Errorf("%s takes no messages from here", i.s.Table())
	}
	_, err := q.EnqueueAutocommit(ctx, msg)
	switch {
	case errors.Is(err, outbox.ErrEventIDConflict): // somebody was faster
		i.Conflicts++
		i.app.warnf("skipped %s: %s has it with other content", msg.EventID, i.s.Table())
		return nil
	case err != nil:
		return fmt.Errorf("enqueue %s: %w", msg.EventID, err)
	}
	i.Imported++
	return nil
}

// record notes the import in the audit trail. It comes after the messages, which are
// committed one by one.
func (i *importer) record(ctx context.Context, who author) error {
	r, ok := i.s.(outbox.Recorder)
	if !ok {
		return nil
	}
	err := r.Record(ctx, outbox.AuditEntry{Actor: who.actor, Verb: verbImport, Reason: who.reason, Messages: i.Imported})
	if err != nil {
		return fmt.Errorf("the messages are imported, but not on record: %w", err)
	}
	return nil
}

func (i *importer) print() error {
	if i.app.json {
		return i.app.printJSON(struct {
			Table string `json:"table"`
			*importer
			Preview bool `json:"preview"`
		}{i.s.Table(), i, i.preview})
	}
	did := "imported"
	if i.preview {
		did = "would import"
	}
	_, err := fmt.Fprintf(i.app.out, "%s %d messages into %s; skipped %d that it has already, %d of them with other content\n",
		did, i.Imported, i.s.Table(), i.Duplicates+i.Conflicts, i.Conflicts)
	return err
}
