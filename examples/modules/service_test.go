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
	for heads := 0; heads != 2; {
		if ctx.Err() != nil {
			t.Fatalf("Engines has %d heads, want 2", heads)
		}
		if err := pool.QueryRow(ctx, `SELECT headcount FROM department WHERE name = 'Engines'`).Scan(&heads); err != nil {
			t.Fatal(err)
		}
	}
	var departments, onboardings int
	err = pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM department), (SELECT count(*) FROM onboarding)`).Scan(&departments, &onboardings)
	if err != nil || departments != 1 || onboardings != 1 {
		t.Errorf("%d departments and %d onboardings (%v), want one each: Looms was rolled back", departments, onboardings, err)
	}
	if err := svc.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
