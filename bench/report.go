package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A result is what all repetitions of one figure of one system came to.
type result struct {
	Workload    string  `json:"workload"`
	System      string  `json:"system"`
	Unit        string  `json:"unit"`
	Median      float64 `json:"median"`
	Min         float64 `json:"min"`
	Max         float64 `json:"max"`
	Repetitions int     `json:"repetitions"`
}

// lowerIsBetter holds for units that count a cost.
func (r result) lowerIsBetter() bool {
	return !strings.HasSuffix(r.Unit, "/s") && r.Unit != "%" || r.Unit == "queries/s"
}

// results collects figures in the order they were first seen.
type results struct {
	order  []seriesKey
	series map[seriesKey][]float64
}

type seriesKey struct{ workload, system, unit string }

func newResults() *results { return &results{series: map[seriesKey][]float64{}} }

func (r *results) add(system string, f figure) {
	k := seriesKey{f.workload, system, f.unit}
	if _, ok := r.series[k]; !ok {
		r.order = append(r.order, k)
	}
	r.series[k] = append(r.series[k], f.value)
}

// list returns the results, grouped by workload.
func (r *results) list() []result {
	var all []result
	first := map[string]int{}
	for i, k := range r.order {
		if _, ok := first[k.workload]; !ok {
			first[k.workload] = i
		}
	}
	order := slices.Clone(r.order)
	slices.SortStableFunc(order, func(a, b seriesKey) int { return first[a.workload] - first[b.workload] })
	for _, k := range order {
		values := slices.Sorted(slices.Values(r.series[k]))
		all = append(all, result{k.workload, k.system, k.unit, round(median(values)), round(values[0]), round(values[len(values)-1]), len(values)})
	}
	return all
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// round keeps three decimals: more would pretend.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

func writeJSON(w io.Writer, all []result) error {
	encoder := json.NewEncoder(w)
	for _, r := range all {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// writeTable prints the results with the ratio of ours to each.
func writeTable(w io.Writer, all []result) error {
	base := map[string]float64{}
	for _, r := range all {
		if r.System == "outbox" {
			base[r.Workload] = r.Median
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tsystem\tmedian\tmin–max\tunit\toutbox ÷ it\t")
	last := ""
	for _, r := range all {
		name := r.Workload
		if name == last {
			name = ""
		}
		last = r.Workload
		ratio := ""
		if b, ok := base[r.Workload]; ok && r.System != "outbox" && r.Median > 0 {
			ratio = fmt.Sprintf("%.2f", b/r.Median)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s–%s\t%s\t%s\t\n", name, r.System, number3(r.Median), number3(r.Min), number3(r.Max), r.Unit, ratio)
	}
	return t.Flush()
}

// writeSettings states how each measured system was set up.
func (b *bench) writeSettings(w io.Writer, groups []group) {
	said := map[string]bool{}
	for _, g := range groups {
		for _, c := range g.cells {
			if b.wants(c) && !said[c.system.settings] {
				said[c.system.settings] = true
				fmt.Fprintf(w, "%s (%s): %s\n", c.system.name, c.workloads[0], c.system.settings)
			}
		}
	}
}

// number3 prints large numbers with thousands separators and small ones with two
// decimals.
func number3(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
