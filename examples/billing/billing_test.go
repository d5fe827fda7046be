package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox/internal/testenv"
)

// The test program is also the program under test.
func TestMain(m *testing.M) {
	role := os.Getenv("BILLING_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, []string{role}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	stop()
	if err != nil {
		slog.Error("failed", slog.String("role", role), slog.Any("err", err))
		os.Exit(1)
	}
	os.Exit(0)
}

// OUTBOX_SOAK_SECONDS is how long processes are killed; 4 without it.
func TestInvoicesAddUpToOrdersHoweverOftenProcessesAreKilled(t *testing.T) {
	shopDB, billingDB, nats := testenv.Postgres(t), testenv.Postgres(t), testenv.PrivateNATS(t)
	env := append(os.Environ(), "SHOP_URL="+shopDB.DSN(), "BILLING_URL="+billingDB.DSN(), "NATS_URL="+nats.URL(), "LEASE=1s")
	shop, _, err := openShop(t.Context(), shopDB.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shop.Close)
	b, err := openBilling(t.Context(), billingDB.DSN(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)

	var all []*child
	for _, role := range []string{"orders", "relay", "relay", "invoices", "invoices"} {
		all = append(all, start(t, role, env))
	}
	kills := 0
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soak(t)); time.Now().Before(end); <-tick.C {
		all[random.IntN(len(all))].killAndRestart()
		kills++
	}
	for _, c := range all[1:] {
		c.killAndRestart() // whatever state it is in
	}
	all[0].stop(syscall.SIGTERM) // no more orders

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	orders, want := sum(ctx, t, shop, `SELECT count(*), coalesce(sum(total), 0) FROM orders`)
	for {
		invoices, got := sum(ctx, t, b.pool, `SELECT count(*), coalesce(sum(total), 0) FROM invoice`)
		if invoices > orders {
			t.Fatalf("seed %d: %d invoices of %d orders", seed, invoices, orders)
		}
		if invoices == orders {
			if got != want || orders == 0 {
				t.Errorf("seed %d: %d orders are worth %d, their invoices %d", seed, orders, want, got)
			}
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("seed %d: %d invoices of %d orders after a minute", seed, invoices, orders)
		case <-tick.C:
		}
	}
	distinct, _ := sum(ctx, t, b.pool, `SELECT count(DISTINCT order_id), 0 FROM invoice`)
	if distinct != orders {
		t.Errorf("seed %d: %d different orders were billed of %d", seed, distinct, orders)
	}
	t.Logf("%d orders worth %d billed once each from %d deliveries, %d kills", orders, want, deliveries(ctx, t, nats.URL()), kills)
}

// deliveries is how many messages the consumers were given.
func deliveries(ctx context.Context, t *testing.T, url string) uint64 {
	t.Helper()
	conn, stream, err := openStream(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	consumer, err := stream.Consumer(ctx, "billing")
	if err != nil {
		t.Fatal(err)
	}
	return consumer.CachedInfo().Delivered.Consumer
}

func soak(t *testing.T) time.Duration {
	text := os.Getenv("OUTBOX_SOAK_SECONDS")
	if text == "" {
		return 4 * time.Second
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("OUTBOX_SOAK_SECONDS: %v", err)
	}
	return time.Duration(n) * time.Second
}

func sum(ctx context.Context, t *testing.T, pool *pgxpool.Pool, query string) (n, total int) {
	t.Helper()
	if err := pool.QueryRow(ctx, query).Scan(&n, &total); err != nil {
		t.Fatal(err)
	}
	return n, total
}

// A child is one process of the example.
type child struct {
	t    *testing.T
	role string
	env  []string
	cmd  *exec.Cmd
}

func start(t *testing.T, role string, env []string) *child {
	t.Helper()
	c := &child{t: t, role: role, env: append(env[:len(env):len(env)], "BILLING_ROLE="+role)}
	c.start()
	t.Cleanup(func() { c.stop(syscall.SIGKILL) })
	return c
}

func (c *child) start() {
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env, c.cmd.Stderr = c.env, os.Stderr
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) stop(signal os.Signal) {
	_ = c.cmd.Process.Signal(signal) // it may be gone
	_ = c.cmd.Wait()
}

func (c *child) killAndRestart() {
	c.stop(syscall.SIGKILL)
	c.start()
}
