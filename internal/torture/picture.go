package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Picture is the timeline of a run, in the units of its drawing.
type Picture struct {
	Width, Height int
	Ticks         []Tick
	Rates         string // the points of a polyline: deliveries over time
	Peak          int    // the most deliveries in a second
	Lanes         []Lane
}

// A Tick is a mark of the time axis.
type Tick struct {
	X    float64
	Text string
}

// A Lane is a row of the picture.
type Lane struct {
	Name string
	Y    int
	Bars []Bar
}

// A Bar is something that lasted. Class is how it is painted.
type Bar struct {
	X, Width float64
	Class    string
	Title    string
}

const (
	pictureWidth = 1200
	leftMargin   = 110
	ratesHeight  = 80
	laneHeight   = 18
	minBar       = 2
)

// drawing places moments of a run.
type drawing struct {
	began  int64
	length time.Duration
}

func (d drawing) x(at int64) float64 {
	return leftMargin + float64(pictureWidth-leftMargin-10)*min(1, max(0, float64(at-d.began)/float64(d.length)))
}

func (d drawing) bar(from, to int64, class, title string) Bar {
	x := d.x(from)
	return Bar{X: x, Width: max(minBar, d.x(to)-x), Class: class, Title: title}
}

// Draw draws the timeline of a run: how much was delivered, who held which shard, and
// what was broken when.
func Draw(h *History) Picture {
	d := drawing{h.Began, h.length()}
	p := Picture{Width: pictureWidth}
	p.Rates, p.Peak = d.rates(h)
	lanes := append(d.shards(h), d.faults(h)...)
	for i := range lanes {
		lanes[i].Y = ratesHeight + 20 + i*laneHeight
	}
	p.Lanes = lanes
	p.Height = ratesHeight + 40 + len(lanes)*laneHeight
	step := max(1, int(d.length.Seconds())/12)
	for s := 0; s <= int(d.length.Seconds()); s += step {
		p.Ticks = append(p.Ticks, Tick{d.x(h.Began + int64(s)*int64(time.Second)), fmt.Sprint(s, " s")})
	}
	return p
}

// rates draws deliveries per second in slices of a 200th of the run.
func (d drawing) rates(h *History) (points string, peak int) {
	const slices = 200
	var counts [slices + 1]int
	most := 1
	for _, v := range h.Deliveries {
		i := min(slices, max(0, int(slices*(v.At-h.Began)/int64(d.length))))
		counts[i]++
		most = max(most, counts[i])
	}
	var b strings.Builder
	for i, n := range counts {
		x := d.x(h.Began + int64(d.length)*int64(i)/slices)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, float64(ratesHeight)-float64(n)/float64(most)*(ratesHeight-10))
	}
	return b.String(), int(float64(most) * slices / d.length.Seconds())
}

// shards draws a lane for each shard with a bar for each of its owners.
func (d drawing) shards(h *History) []Lane {
	lanes := make(map[int]*Lane)
	open := make(map[int]Handover)
	shut := func(shard int, at int64) {
		if l, ok := open[shard]; ok {
			title := fmt.Sprintf("%s, epoch %d", l.Instance, l.Epoch)
			lanes[shard].Bars = append(lanes[shard].Bars, d.bar(h.mono(l.At), at, "owner"+fmt.Sprint(l.Epoch%2), title))
			delete(open, shard)
		}
	}
	for _, l := range h.Handovers {
		if lanes[l.Shard] == nil {
			lanes[l.Shard] = &Lane{Name: fmt.Sprint("shard ", l.Shard)}
		}
		shut(l.Shard, h.mono(l.At))
		if l.Held {
			open[l.Shard] = l
		}
	}
	for shard := range lanes {
		shut(shard, h.Began+int64(d.length))
	}
	var list []Lane
	for _, shard := range slices.Sorted(maps.Keys(lanes)) {
		list = append(list, *lanes[shard])
	}
	return list
}

// faults draws a lane for each kind of fault.
func (d drawing) faults(h *History) []Lane {
	lanes := make(map[string]*Lane)
	for _, f := range h.Faults {
		if lanes[f.Kind] == nil {
			lanes[f.Kind] = &Lane{Name: f.Kind}
		}
		class := "missed"
		if f.Hit {
			class = "fault"
		}
		lanes[f.Kind].Bars = append(lanes[f.Kind].Bars, d.bar(f.From, f.To, class, f.Detail))
	}
	var list []Lane
	for _, l := range lanes {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b Lane) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
