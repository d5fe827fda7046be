package main

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// charted are the workloads of the chart, with their titles.
var charted = []struct{ workload, title string }{
	{"drain_noop_delete", "Drain, no-op handler, nothing kept"},
	{"drain_noop_keep", "Drain, no-op handler, published rows kept by outbox"},
	{"drain_1ms", "Drain, 1 ms handler"},
	{"enqueue_tx_16", "Enqueue, one per transaction, 16 connections"},
	{"enqueue_many_1000", "Enqueue, batches of 1,000"},
	{"latency_100_p50", "Commit to handler at 100/s, median"},
	{"latency_100_p99", "Commit to handler at 100/s, 99th percentile"},
	{"wal_keep", "Write-ahead log per delivered message"},
	{"mariadb_drain_delete", "MariaDB: drain, no-op handler, nothing kept"},
	{"sqlite_drain_delete", "SQLite: drain, no-op handler, nothing kept"},
	{"sink_kafka", "PostgreSQL to Kafka"},
	{"sink_nats", "PostgreSQL to NATS JetStream"},
	{"sink_redis", "PostgreSQL to a Redis stream"},
}

const (
	svgWidth = 760
	svgLabel = 130 // width of the system names
	svgBar   = 16
	svgRow   = 22
	svgValue = 170 // room for the figure to the right of a bar
)

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 13px }
.dim { fill: #6e7781 }
.ours { fill: #0969da }
.peer { fill: #8c959f }
.yardstick { fill: #d0d7de }
.range { stroke: #24292f; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #8d96a0 } .ours { fill: #4493f8 } .peer { fill: #656c76 } .yardstick { fill: #3d444d } .range { stroke: #e6edf3 }
}
</style>
`

// writeSVG draws one block of bars per workload: ours in colour, the yardsticks that
// are no product in pale, and the range as a line. Beside each figure of another system
// is how many times as much ours is.
func writeSVG(w io.Writer, all []result) error {
	var body strings.Builder
	y := drawLegend(&body)
	for _, c := range charted {
		rows := slices.DeleteFunc(slices.Clone(all), func(r result) bool {
			// The half second of literal would leave nothing of the others to see.
			return r.Workload != c.workload || r.Unit == "ms" && r.System == literalSystem.name
		})
		if len(rows) > 0 {
			y = drawBlock(&body, y, c.title, rows)
		}
	}
	if _, err := fmt.Fprintf(w, svgHead, svgWidth, y, svgWidth, y, "outbox measured against peers"); err != nil {
		return err
	}
	_, err := io.WriteString(w, body.String()+"</svg>\n")
	return err
}

func drawLegend(b *strings.Builder) int {
	x := svgLabel
	for _, l := range []struct{ class, text string }{
		{"ours", "outbox"}, {"peer", "published peers"}, {"yardstick", "yardsticks: no product, or less than one"},
	} {
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"8\" width=\"12\" height=\"12\" rx=\"2\"/>\n", l.class, x)
		fmt.Fprintf(b, "<text class=\"dim\" x=\"%d\" y=\"18\">%s</text>\n", x+18, l.text)
		x += 40 + 7*len(l.text)
	}
	return 36
}

func drawBlock(b *strings.Builder, y int, title string, rows []result) int {
	lower := rows[0].lowerIsBetter()
	slices.SortStableFunc(rows, func(a, b result) int {
		if lower {
			a, b = b, a
		}
		return cmp.Compare(b.Median, a.Median)
	})
	better := "higher is better"
	if lower {
		better = "lower is better"
	}
	largest := slices.MaxFunc(rows, func(a, b result) int { return cmp.Compare(a.Max, b.Max) }).Max
	scale := float64(svgWidth-svgLabel-svgValue) / max(largest, 1e-9)
	fmt.Fprintf(b, "<text class=\"title\" x=\"4\" y=\"%d\">%s <tspan class=\"dim\" font-weight=\"400\">(%s, %s)</tspan></text>\n",
		y+14, html.EscapeString(title), html.EscapeString(rows[0].Unit), better)
	y += 24
	for _, r := range rows {
		middle := y + svgBar/2
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", svgLabel-8, y+13, html.EscapeString(r.System))
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
			barClass(r.System), svgLabel, y, max(r.Median*scale, 1), svgBar)
		fmt.Fprintf(b, "<line class=\"range\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
			svgLabel+r.Min*scale, middle, svgLabel+r.Max*scale, middle)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s%s</text>\n", svgLabel+max(r.Max*scale, 1)+6, y+13, number3(r.Median), versus(rows, r))
		y += svgRow
	}
	return y + 14
}

// versus says what ours is in relation to another system.
func versus(rows []result, r result) string {
	i := slices.IndexFunc(rows, func(r result) bool { return r.System == "outbox" })
	if i < 0 || r.System == "outbox" || r.Median <= 0 {
		return ""
	}
	times := rows[i].Median / r.Median
	digits := 1
	if times < 2 {
		digits = 2
	}
	return fmt.Sprintf(" <tspan class=\"dim\">outbox × %.*f</tspan>", digits, times)
}

func barClass(name string) string {
	if name == "outbox" || name == ourSingle.name {
		return "ours"
	}
	for _, p := range peers {
		if p.name == name {
			return "peer"
		}
	}
	return "yardstick"
}
