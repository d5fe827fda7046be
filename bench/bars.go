package main

import (
	"fmt"
	"io"
	"math"
)

// A bar is what a figure has to reach. Most are ratios of medians within one run.
type bar struct {
	name    string
	value   func(f figures) float64 // NaN when something was not measured
	atLeast bool
	want    float64
	unit    string // " ×" for ratios
}

// figures finds results by workload and system.
type figures map[[2]string]result

func newFigures(all []result) figures {
	f := figures{}
	for _, r := range all {
		f[[2]string{r.Workload, r.System}] = r
	}
	return f
}

func (f figures) median(workload, system string) float64 {
	if r, ok := f[[2]string{workload, system}]; ok {
		return r.Median
	}
	return math.NaN()
}

func (f figures) ours(workload string) float64 { return f.median(workload, "outbox") }

// fastest is the best of some systems. One that was not measured could have been it.
func (f figures) fastest(workload string, systems ...system) float64 {
	best := 0.0
	for _, s := range systems {
		best = math.Max(best, f.median(workload, s.name)) // NaN stays
	}
	return best
}

// over is ours in relation to another system.
func over(workload, system string) func(f figures) float64 {
	return func(f figures) float64 { return f.ours(workload) / f.median(workload, system) }
}

// overPeers is ours in relation to the fastest published peer.
func overPeers(workload string) func(f figures) float64 {
	return func(f figures) float64 { return f.ours(workload) / f.fastest(workload, peers...) }
}

// between is one of our workloads in relation to another.
func between(workload, base string) func(f figures) float64 {
	return func(f figures) float64 { return f.ours(workload) / f.ours(base) }
}

func only(workload string) func(f figures) float64 {
	return func(f figures) float64 { return f.ours(workload) }
}

const ratio = " ×"

// bars are what the project promises.
var bars = []bar{
	{"drain no-op, deleting ÷ fastest peer", overPeers("drain_noop_delete"), true, 2.5, ratio},
	{"drain no-op, deleting ÷ river", over("drain_noop_delete", "river"), true, 12, ratio},
	{"drain no-op, deleting ÷ unclaimed", over("drain_noop_delete", "unclaimed"), true, 1, ratio},
	{"drain no-op, deleting ÷ limit", over("drain_noop_delete", "limit"), true, 0.7, ratio},
	{"drain no-op, keeping ÷ fastest peer", overPeers("drain_noop_keep"), true, 1.8, ratio},
	{"drain no-op, keeping ÷ unclaimed", over("drain_noop_keep", "unclaimed"), true, 0.7, ratio},
	{"drain no-op, keeping ÷ limit", over("drain_noop_keep", "limit"), true, 0.7, ratio},
	{"updates that are HOT, keeping", only("hot_keep"), true, 99.9, " %"},
	{"drain 1 ms ÷ river", over("drain_1ms", "river"), true, 6, ratio},
	{"drain 1 ms ÷ fastest sequential peer", func(f figures) float64 {
		return f.ours("drain_1ms") / f.fastest("drain_1ms", watermillSystem, watermillQueueSystem)
	}, true, 50, ratio},

	{"enqueue 1/tx, 16 connections ÷ fastest peer", overPeers("enqueue_tx_16"), true, 0.85, ratio},
	{"enqueue 1/tx, 16 connections ÷ without an event", func(f figures) float64 {
		return f.ours("enqueue_tx_16") / f.median("business_only_16", nothing.name)
	}, true, 0.5, ratio},
	{"the same in one round trip ÷ without an event", func(f figures) float64 {
		return f.ours("enqueue_batch_tx_16") / f.median("business_only_16", nothing.name)
	}, true, 0.85, ratio},
	{"enqueue batches of 1,000 ÷ river", over(enqueueMany, "river"), true, 1.5, ratio},
	{"enqueue batches of 1,000 ÷ COPY", over(enqueueMany, bareCopy.name), true, 0.28, ratio},

	{"latency at 100/s, polling, p50", only("latency_100_p50"), false, 5, " ms"},
	{"latency at 100/s, polling, p99", only("latency_100_p99"), false, 20, " ms"},
	{"latency at 100/s, wake-up, p50", only("latency_100_wake_p50"), false, 2, " ms"},
	// Pairs of this length tell no smaller difference from none.
	{"wake-up on the write path, median cost of five pairs", only("write_path_cost"), false, 3, " %"},
	{"latency at 2,000/s, p99", only("latency_2000_p99"), false, 30, " ms"},
	{"the same beside an open transaction", only("latency_2000_held_p99"), false, 30, " ms"},

	{"WAL per message, keeping ÷ literal", over("wal_keep", "literal"), false, 0.4, ratio},
	{"WAL per message, deleting ÷ literal", over("wal_delete", "literal"), false, 0.27, ratio},

	{"5 M retained rows ÷ none", between("retained_5m", "retained_0"), true, 0.8, ratio},
	{"xmin pinned ÷ before", between("pinned_xmin", "unpinned_xmin"), true, 0.8, ratio},
	{"vacuumed when drained ÷ before, keeping", between("vacuumed", "vacuumed_before"), true, 0.8, ratio},
	{"vacuumed when drained ÷ before, deleting", between("vacuumed_delete", "vacuumed_delete_before"), true, 0.8, ratio},
	{"never analysed ÷ analysed, keeping", between("unanalysed", "analysed"), true, 0.8, ratio},
	{"never analysed ÷ analysed, deleting", between("unanalysed_delete", "analysed_delete"), true, 0.8, ratio},
	{"the verbatim table, keeping ÷ literal", over("verbatim_keep", "literal"), true, 10, ratio},
	{"the verbatim table, deleting ÷ literal", over("verbatim_delete", "literal"), true, 25, ratio},
	{"cost of a message, 1 M ÷ 10 k waiting, deleting", between("backlog_10k_delete", "backlog_1m_delete"), false, 1.2, ratio},
	{"cost of a message, 1 M ÷ 10 k waiting, keeping", between("backlog_10k", "backlog_1m"), false, 1.3, ratio},

	{"restart beside 5 M retained rows, first dispatch", only("restart_5m"), false, 1000, " ms"},
	{"idle relay", only("idle"), false, 5, " queries/s"},
	{"idle relay, of a core", only("idle_cpu"), false, 1, " %"},
	{"memory with 1 M waiting", only("memory"), false, 150, " MiB"},
	{"memory with payloads of 1 MiB", only("memory_1mib"), false, 150, " MiB"},

	{"PostgreSQL to Kafka ÷ bound", over("sink_kafka", boundName), true, 0.8, ratio},
	{"PostgreSQL to NATS ÷ bound", over("sink_nats", boundName), true, 0.8, ratio},
	{"PostgreSQL to Redis ÷ bound", over("sink_redis", boundName), true, 0.8, ratio},
	{"webhook endpoint with 20 ms", only(webhookWorkload), true, 2000, " msg/s"},
}

// boundName is a yardstick that is computed: the rate of doing with the store and with
// the client, one after the other, what each of them does alone.
const boundName = "bound"

// withBounds adds the bound of each workload that has both of its parts.
func withBounds(all []result) []result {
	f := newFigures(all)
	var more []result
	for i, r := range all {
		more = append(more, r)
		if i+1 < len(all) && all[i+1].Workload == r.Workload {
			continue
		}
		store, ok := f[[2]string{r.Workload, sinkStore.name}]
		client, and := f[[2]string{r.Workload, sinkClient.name}]
		if _, there := f[[2]string{r.Workload, boundName}]; !ok || !and || there {
			continue
		}
		one := func(a, b float64) float64 { return round(1 / (1/a + 1/b)) }
		more = append(more, result{r.Workload, boundName, r.Unit, one(store.Median, client.Median),
			one(store.Min, client.Min), one(store.Max, client.Max), min(store.Repetitions, client.Repetitions)})
	}
	return more
}

// writeBars prints what was reached, of everything or of what was measured.
func writeBars(w io.Writer, all []result, everything, markdown bool) error {
	f := newFigures(all)
	rows := [][]string{{"bar", "measured", "wanted", "verdict"}}
	missed, measured := 0, 0
	for _, b := range bars {
		value := b.value(f)
		if math.IsNaN(value) {
			if everything {
				rows = append(rows, []string{b.name, "–", b.wanted(), "not measured"})
			}
			continue
		}
		measured++
		verdict := "pass"
		if !b.passes(value) {
			missed++
			verdict = "FAIL"
		}
		rows = append(rows, []string{b.name, b.measured(value), b.wanted(), verdict})
	}
	if len(rows) == 1 {
		return nil
	}
	if err := writeRows(w, rows, markdown); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d bars measured, %d missed\n", measured, len(bars), missed)
	return err
}

// measured has a third decimal where it may decide.
func (b bar) measured(value float64) string {
	if math.Abs(value) < 1 {
		return fmt.Sprintf("%.3f%s", value, b.unit)
	}
	return number3(value) + b.unit
}

func (b bar) passes(value float64) bool {
	if b.atLeast {
		return value >= b.want
	}
	return value <= b.want
}

func (b bar) wanted() string {
	sign := "≤"
	if b.atLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %g%s", sign, b.want, b.unit)
}
