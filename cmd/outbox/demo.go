package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/relay"
)

// demoPatience is how long the demo waits for its last messages.
const demoPatience = time.Minute

func (a *app) demoCommand() *cobra.Command {
	var events int
	var serve bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the outbox keep its promise, in a temporary SQLite file",
		Long: "A small shop writes orders and events in one transaction each and rolls about every tenth back. A relay hands\n" +
			"the events to a handler that fails on every twentieth at first, and refuses one for good. At the end, what\n" +
			"the handler got is compared with the orders table.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if events < 1 {
				return usagef("--events: must be at least 1, got %d", events)
			}
			return a.demo(cmd.Context(), events, serve)
		},
	}
	cmd.Flags().IntVar(&events, "events", 2000, "how many orders to write")
	cmd.Flags().BoolVar(&serve, "serve", false, "then go on, slowly, until interrupted, with the web console")
	return cmd
}

func (a *app) demo(ctx context.Context, events int, serve bool) error {
	dir, err := os.MkdirTemp("", "outbox-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	sh, err := openShop(ctx, path)
	if err != nil {
		return err
	}
	defer sh.close()
	if serve {
		a.warnf("look at it from another terminal: outbox status --dsn sqlite:%s --table %s", path, shopTable)
		closeConsole, err := a.demoConsole(ctx, sh)
		if err != nil {
			return err
		}
		defer closeConsole()
	}

	began := time.Now()
	if err := a.trade(ctx, sh, events, serve); err != nil {
		return err
	}
	if ctx.Err() != nil && !serve {
		return context.Cause(ctx)
	}
	return a.closeBooks(context.WithoutCancel(ctx), sh, time.Since(began))
}

// demoConsole serves the console for the demo's table, on its usual port if that is
// free. Whoever can reach loopback here may look: there is nothing but a demo.
func (a *app) demoConsole(ctx context.Context, sh *shop) (func(), error) {
	log := slog.New(slog.DiscardHandler)
	sources := []console.Source{{Name: sh.store.Table(), Inspector: sh.store, Operator: sh.store}}
	var errs []error
	for _, addr := range []string{defaultConsoleAddr, "127.0.0.1:0"} {
		w, err := a.newWebConsole(consoleOptions{listen: addr, path: "/", noAuth: true, payloadRole: string(console.RoleAdmin)}, sources, log)
		if err != nil {
			return nil, err
		}
		if err := w.listen(ctx, log); err != nil {
			errs = append(errs, err)
			continue
		}
		return func() { w.close(context.WithoutCancel(ctx)) }, nil
	}
	return nil, errors.Join(errs...)
}

// trade sells while a relay delivers, and returns when all is delivered or dead.
func (a *app) trade(ctx context.Context, sh *shop, events int, serve bool) error {
	r, err := relay.New(sh.store, sh.sink, relay.Config{
		Poll: 50 * time.Millisecond,
		// Short waits: a demo should not spend its time in backoff.
		Retries: outbox.Retries{Default: outbox.RetryPolicy{Base: 50 * time.Millisecond, Max: time.Second}},
	})
	if err != nil {
		return err
	}
	sh.sold = r.Wake

	// The relay outlives an interrupt: what was sold is still delivered.
	relaying, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	group.Go(func() {
		if err := r.Run(relaying); err != nil {
			stop(err)
		}
	})
	if interactive(a.err) {
		group.Go(func() { a.showProgress(relaying, sh) })
	}

	if err := sh.sell(ctx, events); err != nil {
		return err
	}
	if serve {
		if err := sh.sellSlowly(ctx); err != nil {
			return err
		}
	}
	return sh.awaitDelivery(relaying)
}

// showProgress redraws one line until ctx ends, and then removes it.
func (a *app) showProgress(ctx context.Context, sh *shop) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p := sh.progress()
			fmt.Fprintf(a.err, clearLine+"%d committed, %d rolled back, %d delivered, %d failed and retried",
				p.committed, p.rolledBack, p.delivered, p.failures)
		case <-ctx.Done():
			fmt.Fprint(a.err, clearLine)
			return
		}
	}
}

// books is what the demo found. Its names are fixed.
type books struct {
	Committed  int `json:"committed"`
	RolledBack int `json:"rolled_back"`
	Delivered  int `json:"delivered"`
	Duplicates int `json:"duplicates"`
	Dead       int `json:"dead"`
	Lost       int `json:"lost"`
}

// closeBooks compares what was delivered with the orders table.
func (a *app) closeBooks(ctx context.Context, sh *shop, took time.Duration) error {
	b, problems, err := sh.audit(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(b)
	} else {
		err = a.printBooks(b, sh.progress().failures, took)
	}
	return errors.Join(err, problems)
}

func (a *app) printBooks(b books, failures int, took time.Duration) error {
	c := newColumns(a.out)
	row := func(n int, what, meaning string) { c.row(fmt.Sprintf("%7d", n), what, meaning) }
	row(b.Committed, "committed", "orders in the orders table, each with one event")
	row(b.RolledBack, "rolled back", "order and event vanished together")
	row(b.Delivered, "delivered", fmt.Sprintf("events the handler has, %d of them after a failure", failures))
	row(b.Duplicates, "duplicates", "deliveries of an event the handler had already")
	row(b.Dead, "dead", "refused for good: kept, with the reason, until someone replays it")
	row(b.Lost, "lost", "committed events that are nowhere")
	if err := c.flush(); err != nil {
		return err
	}
	if b.Lost > 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "\nChecked against the orders table in %s: every committed order's event was delivered or is\n"+
		"visibly dead, no rolled-back one was, and each customer's events came in order.\n", took.Round(100*time.Millisecond))
	return err
}
