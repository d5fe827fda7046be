package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-outbox/outbox/internal/testenv"
)

func TestHiringReachesTheOtherModuleAndAFailedOneDoesNot(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	svc, err := newService(t.Context(), pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := svc.Hire(t.Context(), "Ada", "Engines"); err != nil {
		t.Fatal(err)
	}
	if err := svc.Hire(t.Context(), "Ada", "Looms"); err == nil { // the name is taken: all of it rolls back
		t.Fatal("Ada was hired twice")
	}
	if err := svc.Hire(t.Context(), "Grace", "Engines"); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for heads, onboardings := 0, 0; heads != 2 || onboardings != 1; {
		err := pool.QueryRow(ctx, `SELECT headcount, (SELECT count(*) FROM onboarding) FROM department WHERE name = 'Engines'`).
			Scan(&heads, &onboardings)
		if err != nil {
			t.Fatalf("Engines has %d heads and %d onboardings, want 2 and 1: %v", heads, onboardings, err)
		}
	}
	var departments int
	err = pool.QueryRow(ctx, `SELECT count(*) FROM department`).Scan(&departments)
	if err != nil || departments != 1 {
		t.Errorf("%d departments (%v), want one: Looms was rolled back", departments, err)
	}
	if err := svc.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
