package console

import (
	"html/template"
	"strconv"
	"strings"
	"time"
)

// A chart is a sparkline in the coordinates of its picture.
type chart struct {
	Line, Area template.HTMLAttr
	// EndX and EndY are where the newest value is.
	EndX, EndY string
	Label      string
	Empty      bool
}

const (
	chartWidth  = 240
	chartHeight = 44
	chartPad    = 2
	// headroom keeps a level from looking like a ceiling.
	headroom = 1.3
	// chartSpan is the time that a sparkline shows.
	chartSpan = 10 * time.Minute
)

// newChart draws values over time. The scale begins at zero, so that a flat line at the
// bottom means none, and has a least height, so that noise does not look like a trend.
func newChart(points []point, least float64, value func(point) float64) chart {
	if len(points) == 0 {
		return chart{Empty: true}
	}
	end := points[len(points)-1].at
	begin := points[0].at
	if end.Sub(begin) > chartSpan {
		begin = end.Add(-chartSpan)
	}
	top := least
	for _, p := range points {
		top = max(top, value(p)*headroom)
	}
	var xs, ys []float64
	for _, p := range points {
		if p.at.Before(begin) {
			continue
		}
		x := 0.0
		if span := end.Sub(begin); span > 0 {
			x = float64(p.at.Sub(begin)) / float64(span)
		}
		xs = append(xs, x*chartWidth)
		ys = append(ys, chartHeight-chartPad-value(p)/top*(chartHeight-2*chartPad))
	}
	if len(xs) == 1 { // a single look is a level, not a dot
		xs, ys = []float64{0, chartWidth}, []float64{ys[0], ys[0]}
	}
	return drawChart(xs, ys)
}

func drawChart(xs, ys []float64) chart {
	var line strings.Builder
	for i := range xs {
		verb := byte('L')
		if i == 0 {
			verb = 'M'
		}
		line.WriteByte(verb)
		line.WriteString(coordinate(xs[i]) + " " + coordinate(ys[i]))
	}
	last := len(xs) - 1
	floor := coordinate(chartHeight - chartPad)
	area := line.String() + "L" + coordinate(xs[last]) + " " + floor + "L" + coordinate(xs[0]) + " " + floor + "Z"
	return chart{
		Line: pathData(line.String()), Area: pathData(area),
		EndX: coordinate(xs[last]), EndY: coordinate(ys[last]),
	}
}

// pathData is safe: it is made of numbers and the letters M, L and Z.
func pathData(d string) template.HTMLAttr { return template.HTMLAttr(`d="` + d + `"`) } //nolint:gosec // numbers only

func coordinate(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
