package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

// A Picture is the timeline of a run, in the units of its drawing.
type Picture struct {
	Width, Height int
	Ticks         []Tick
	Rates         string // the points of a polyline: deliveries over time
	Peak          int    // the most deliveries in a second
	Backlog       string // another: committed and not accepted yet
	Deepest       int    // the most of those
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
	leftMargin   = 190
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

// Draw draws the timeline of a run: how much was delivered and how much waited, when
// nothing moved, who held which shard, what the operator did, and what was broken when.
func Draw(h *History) Picture {
	d := drawing{h.Began, h.length()}
	p := Picture{Width: pictureWidth}
	p.Rates, p.Peak = d.rates(h)
	waiting := d.waiting(h)
	p.Backlog, p.Deepest = d.line(waiting)
	lanes := slices.Concat([]Lane{d.stalls(h, waiting)}, d.shards(h), []Lane{d.operator(h)}, d.faults(h))
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

// sliceCount is how many slices of time are counted.
const sliceCount = 200

// counts has a number for each slice.
type counts [sliceCount + 1]int

// slice is the one that a moment lies in.
func (d drawing) slice(at int64) int {
	return min(sliceCount, max(0, int(sliceCount*(at-d.began)/int64(d.length))))
}

func (d drawing) sliceEnd(i int) int64 { return d.began + int64(d.length)*int64(i)/sliceCount }

// line draws counts as a polyline.
func (d drawing) line(c counts) (points string, most int) {
	most = max(1, slices.Max(c[:]))
	var b strings.Builder
	for i, n := range c {
		fmt.Fprintf(&b, "%.1f,%.1f ", d.x(d.sliceEnd(i)), float64(ratesHeight)-float64(n)/float64(most)*(ratesHeight-10))
	}
	return b.String(), most
}

// rates draws deliveries per second.
func (d drawing) rates(h *History) (points string, peak int) {
	points, most := d.line(d.delivered(h))
	return points, int(float64(most) * sliceCount / d.length.Seconds())
}

func (d drawing) delivered(h *History) (c counts) {
	for _, v := range h.Deliveries {
		c[d.slice(v.At)]++
	}
	return c
}

// waiting counts what was committed and not accepted by the end of each slice.
func (d drawing) waiting(h *History) (c counts) {
	for _, f := range newChecker(h).fates {
		givenUp := f.accepted == 0 && (f.dead() || f.purged) // nobody waits for it
		if f.tx.Outcome != OK || f.Undone || givenUp {
			continue
		}
		c[d.slice(f.tx.Ended)]++
		if f.accepted != 0 {
			c[d.slice(f.accepted)]--
		}
	}
	for i := 1; i < len(c); i++ {
		c[i] += c[i-1]
	}
	return c
}

// stalls draws when messages waited and nothing at all was delivered, the longest times
// of a run that was stuck.
func (d drawing) stalls(h *History, waiting counts) Lane {
	lane := Lane{Name: "nothing moves"}
	delivered, from := d.delivered(h), -1
	for i := range delivered {
		stuck := delivered[i] == 0 && waiting[i] > 0
		if stuck && from < 0 {
			from = i
		}
		if from >= 0 && (!stuck || i == sliceCount) {
			b := d.bar(d.sliceEnd(from), d.sliceEnd(i), "stall", fmt.Sprintf("%d waited", waiting[from]))
			lane.Bars = append(lane.Bars, b)
			from = -1
		}
	}
	return lane
}

// operator draws what the operator did.
func (d drawing) operator(h *History) Lane {
	lane := Lane{Name: "operator"}
	for _, r := range h.Replays {
		lane.Bars = append(lane.Bars, d.bar(r.At, r.Done, "operator", "replay"))
	}
	var paused int64
	for _, i := range h.Interventions {
		switch i.Verb {
		case outbox.VerbPause:
			paused = i.Done
		case outbox.VerbResume:
			lane.Bars = append(lane.Bars, d.bar(max(paused, h.Began), i.At, "pause", "paused"))
		default:
			lane.Bars = append(lane.Bars, d.bar(i.At, i.Done, "operator", string(i.Verb)))
		}
	}
	return lane
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
