// Command shots makes the screenshots of the documentation: the console over a shop in
// trouble, light and dark. It writes them to docs/images.
//
//	go run ./internal/browsertest/cmd/shots [DIRECTORY]
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
	_ "modernc.org/sqlite" // the scene is in an SQLite file

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/internal/browsertest"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

func main() {
	dir := "docs/images"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	temporary, err := os.MkdirTemp("", "outbox-shots-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(temporary, "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer db.Close()
	shop, err := table(ctx, db, "shop_outbox")
	if err != nil {
		return err
	}
	scene, err := browsertest.Start(ctx, shop)
	if err != nil {
		return err
	}
	defer scene.Stop()
	if err := history(ctx, db, shop); err != nil {
		return err
	}
	c, err := console.New(console.Config{
		Stores: []console.Source{{Name: "shop_outbox", Inspector: shop.Store, Operator: shop.Store}},
		Auth: console.Auth{Request: func(*http.Request) *console.Principal {
			return &console.Principal{Name: "kim", Role: console.RoleAdmin}
		}},
		Every: 200 * time.Millisecond, Version: "v0.1.0",
	})
	if err != nil {
		return err
	}
	server := httptest.NewServer(c)
	defer c.Close()
	defer server.Close()
	return shoot(ctx, scene, server.URL, dir)
}

func table(ctx context.Context, db *sql.DB, name string) (browsertest.Table, error) {
	s, err := sqlitestore.New(db, sqlitestore.Config{Table: name})
	if err != nil {
		return browsertest.Table{}, err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return browsertest.Table{}, err
	}
	return browsertest.Table{Store: s, Enqueue: func(ctx context.Context, messages []outbox.Message) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a commit it does nothing
		if _, err := s.EnqueueMany(ctx, tx, messages); err != nil {
			return err
		}
		return tx.Commit()
	}}, nil
}

// history gives the scene a past, which a test need not have: ages of minutes and hours,
// and people who have done something already.
func history(ctx context.Context, db *sql.DB, t browsertest.Table) error {
	const minute = 60 * 1_000_000
	for _, statement := range []string{
		fmt.Sprintf(`UPDATE shop_outbox SET created_at = created_at - %d - (sequence * 7919 %% 97) * %d,
			available_at = CASE WHEN available_at > created_at THEN available_at ELSE available_at - %d - (sequence * 7919 %% 97) * %d END`,
			38*minute, minute/4, 38*minute, minute/4),
		fmt.Sprintf(`UPDATE shop_outbox SET dead_at = created_at + %d WHERE dead_at IS NOT NULL`, minute/12),
		fmt.Sprintf(`UPDATE shop_outbox SET dead_at = dead_at + %d WHERE dead_at IS NOT NULL AND topic LIKE 'billing%%' AND sequence %% 5 = 0`, 34*minute),
		fmt.Sprintf(`UPDATE shop_outbox_attempt SET at = at - %d`, 38*minute),
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	_, err := t.Store.Apply(ctx, outbox.Action{Verb: outbox.VerbPause, Route: "crm", Actor: "lee", Reason: "OPS-311: import 77 locks customers until 16:00"})
	if err == nil {
		_, err = t.Store.Apply(ctx, outbox.Action{Verb: outbox.VerbTrigger, Actor: "kim", Reason: "looking into INC-2041"})
	}
	return err
}

// pages are what is photographed.
var pages = []struct {
	name, path string
	height     int64
}{
	{"overview", "/", 700},
	{"messages", "/messages?before=336", 800},
	{"message", "/messages/" + browsertest.DeadInvoice.String(), 1000},
	{"dead", "/dead", 560},
	{"workbench", "/replay?since=2h", 760},
}

func shoot(ctx context.Context, scene *browsertest.Scene, url, dir string) error {
	path, err := browsertest.Find()
	if err != nil {
		return err
	}
	browser, err := browsertest.Open(ctx, path)
	if err != nil {
		return err
	}
	defer browser.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Watch for a while, so that there is something to draw.
	if err := browser.Do(chromedp.Navigate(url)); err != nil {
		return err
	}
	if err := scene.Trade(ctx, 40, 200*time.Millisecond); err != nil {
		return err
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, p := range pages {
			if err := browser.Do(browsertest.Look(1280, p.height, scheme), chromedp.Navigate(url+p.path)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			picture, err := browser.Picture()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if err := save(filepath.Join(dir, p.name+"-"+scheme+".png"), picture); err != nil {
				return err
			}
		}
	}
	if problems := browser.Problems(); len(problems) > 0 {
		return fmt.Errorf("the browser complains: %q", problems)
	}
	return nil
}
