package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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

// readResults reads what writeJSON wrote.
func readResults(file string) (all []result, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoder := json.NewDecoder(f)
	for {
		var r result
		err := decoder.Decode(&r)
		switch {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, fmt.Errorf("%s: no results", file)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: result %d: %w", file, len(all)+1, err)
		case r.Workload == "" || r.System == "":
			return nil, fmt.Errorf("%s: result %d has no workload or system: is it of --json?", file, len(all)+1)
		}
		all = append(all, r)
	}
}

// writeTable prints the results with the ratio of ours to each.
func writeTable(w io.Writer, all []result, markdown bool) error {
	f := newFigures(all)
	rows := [][]string{{"workload", "system", "median", "min–max", "unit", "outbox ÷ it"}}
	last := ""
	for _, r := range all {
		name := r.Workload
		if name == last {
			name = ""
		}
		last = r.Workload
		ratio := ""
		if ours := f.ours(r.Workload); ours >= 0 && r.System != "outbox" && r.Median > 0 {
			ratio = fmt.Sprintf("%.2f", ours/r.Median)
		}
		rows = append(rows, []string{name, r.System, number3(r.Median), number3(r.Min) + "–" + number3(r.Max), r.Unit, ratio})
	}
	return writeRows(w, rows, markdown)
}

// writeRows prints a table with a head, for a terminal or for a document.
func writeRows(w io.Writer, rows [][]string, markdown bool) error {
	if markdown {
		for i, row := range rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintln(w, "|"+strings.Repeat("---|", len(row)))
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
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
