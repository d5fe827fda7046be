package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if was, err := childMain(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEveryWorkloadRunsOnEverySystem(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	if _, err := postgresBin(); err != nil {
		t.Skip(err)
	}
	s, err := startServer(t.Context(), "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, g := range groups() {
		t.Run(g.cells[0].workloads[0], func(t *testing.T) {
			if g.missing != nil {
				if err := g.missing(); err != nil {
					t.Skip(err)
				}
			}
			all, _ := names([]group{g})
			b := &bench{server: s, sizes: smoke, repetitions: 1, only: all, progress: t.Output(), results: newResults()}
			if err := b.run(t.Context(), []group{g}); err != nil {
				t.Fatal(err)
			}
			checkFigures(t, g, b.results.list())
		})
	}
}

// checkFigures wants every announced workload and no other, with plausible values.
func checkFigures(t *testing.T, g group, list []result) {
	t.Helper()
	listed, _ := names([]group{g})
	found := map[string]bool{}
	for _, r := range list {
		found[r.Workload] = true
		if !slices.Contains(listed, r.Workload) {
			t.Errorf("%s is measured but not listed", r.Workload)
		}
		if r.Median < 0 && r.Workload != "write_path_cost" || r.Median == 0 && strings.HasSuffix(r.Unit, "/s") && r.Unit != "queries/s" {
			t.Errorf("%s of %s is %v %s", r.Workload, r.System, r.Median, r.Unit)
		}
	}
	for _, name := range listed {
		if !found[name] {
			t.Errorf("%s is listed but not measured", name)
		}
	}
}

func TestNumberSurvivesJSONB(t *testing.T) {
	for _, text := range []string{string(payload(42)), `{"items": [{"sku": "A"}], "n": 42, "order_id": "x"}`, `{"n": 42}`} {
		if n, err := number([]byte(text)); err != nil || n != 42 {
			t.Errorf("number(%s) = %d, %v", text, n, err)
		}
	}
	if _, err := number([]byte(`{}`)); err == nil {
		t.Error("a payload without a number has one")
	}
}

func TestPayloadIsAbout300BytesOfJSON(t *testing.T) {
	p := payload(99_999)
	if !json.Valid(p) || len(p) < 280 || len(p) > 330 {
		t.Errorf("%d bytes, valid %v", len(p), json.Valid(p))
	}
}

func TestAMissingMessageIsAnError(t *testing.T) {
	now := time.Now()
	committed := []time.Time{{}, now, now}
	if _, err := delays(committed, []sighting{{1, now}}); err == nil {
		t.Error("message 2 was not missed")
	}
	all, err := delays(committed, []sighting{{2, now.Add(time.Second)}, {1, now.Add(-time.Second)}, {2, now.Add(time.Hour)}})
	if err != nil || !slices.Equal(all, []time.Duration{0, time.Second}) {
		t.Errorf("%v, %v: want 0 and the first sighting", all, err)
	}
}

func TestReportsAreMediansWithTheirRange(t *testing.T) {
	r := newResults()
	for _, v := range []float64{300, 100, 200} {
		r.add("outbox", figure{"drain_noop_keep", "msg/s", v})
		r.add("river", figure{"drain_noop_keep", "msg/s", v / 10})
	}
	var out bytes.Buffer
	if err := writeJSON(&out, r.list()); err != nil {
		t.Fatal(err)
	}
	want := `{"workload":"drain_noop_keep","system":"outbox","unit":"msg/s","median":200,"min":100,"max":300,"repetitions":3}` + "\n" +
		`{"workload":"drain_noop_keep","system":"river","unit":"msg/s","median":20,"min":10,"max":30,"repetitions":3}` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := writeTable(&out, r.list(), false); err != nil || !strings.Contains(out.String(), "10.00") {
		t.Errorf("no ratio in\n%s%v", out.String(), err)
	}
	out.Reset()
	if err := writeSVG(&out, r.list()); err != nil || strings.Count(out.String(), "<rect") != 3+2 || !strings.Contains(out.String(), "× 10.0") {
		t.Errorf("not a legend and two bars with their ratio in\n%s%v", out.String(), err)
	}
}

func TestReportsComeFromAFile(t *testing.T) {
	dir := t.TempDir()
	file, svg := filepath.Join(dir, "results.jsonl"), filepath.Join(dir, "chart.svg")
	lines := `{"workload":"drain_noop_delete","system":"outbox","unit":"msg/s","median":260000,"min":1,"max":270000,"repetitions":3}
{"workload":"drain_noop_delete","system":"limit","unit":"msg/s","median":400000,"min":1,"max":410000,"repetitions":3}
{"workload":"drain_noop_delete","system":"river","unit":"msg/s","median":20000,"min":1,"max":21000,"repetitions":3}
{"workload":"sink_nats","system":"outbox","unit":"msg/s","median":45000,"min":1,"max":45000,"repetitions":3}
{"workload":"sink_nats","system":"client","unit":"msg/s","median":100000,"min":1,"max":100000,"repetitions":3}
{"workload":"sink_nats","system":"store","unit":"msg/s","median":100000,"min":1,"max":100000,"repetitions":3}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--from", file, "--bars", "--svg", svg}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"drain no-op, deleting ÷ river 13.00 × ≥ 12 × pass",
		"drain no-op, deleting ÷ limit 0.650 × ≥ 0.7 × FAIL",
		"drain no-op, deleting ÷ fastest peer – ≥ 2.5 × not measured",
		"PostgreSQL to NATS ÷ bound 0.900 × ≥ 0.8 × pass",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	picture, err := os.ReadFile(svg)
	if err != nil || !strings.Contains(string(picture), "outbox × 13.0") {
		t.Errorf("no ratio in\n%s%v", picture, err)
	}
}

func TestEveryBarHasItsWorkloads(t *testing.T) {
	workloads, systems := names(groups())
	f := figures{}
	for _, w := range workloads {
		for _, s := range append(systems, boundName) {
			f[[2]string{w, s}] = result{Workload: w, System: s, Median: 1, Min: 1, Max: 1}
		}
	}
	for _, b := range bars {
		if math.IsNaN(b.value(f)) {
			t.Errorf("%q can never be measured", b.name)
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--only", "drain_noop"}, {"--systems", "kafka"}, {"extra"}, {"--repetitions", "0"},
		{"--json", "--bars"}, {"--from", "/nonexistent"}} {
		if err := run(context.Background(), args, t.Output(), t.Output()); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestNamesOfTheMainWorkloadsAreStable(t *testing.T) {
	workloads, systems := names(groups())
	for _, name := range strings.Fields(`enqueue_tx_1 enqueue_tx_16 enqueue_batch_tx_16 enqueue_many_1000 business_only_16
		drain_noop_keep drain_noop_delete drain_1ms latency_100_p50 latency_100_p99 latency_2000_p99 wal_keep wal_delete
		retained_5m pinned_xmin vacuumed unanalysed backlog_1m verbatim_keep verbatim_delete idle memory restart_5m
		write_path_cost backlog_10k backlog_100k retained_1m mariadb_enqueue mariadb_drain mariadb_drain_delete
		sink_kafka sink_nats sink_redis sink_webhook sqlite_enqueue sqlite_drain`) {
		if !slices.Contains(workloads, name) {
			t.Errorf("no workload %s", name)
		}
	}
	for _, name := range []string{"outbox", "limit", "unclaimed", "unclaimed_lean", "literal", "river", "watermill", "watermill_queue", "gue"} {
		if !slices.Contains(systems, name) {
			t.Errorf("no system %s", name)
		}
	}
}
