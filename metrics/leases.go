package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	descLeader = prometheus.NewDesc("outbox_relay_leader",
		"1 while this process holds a lease of the table, 0 while it stands by.", []string{"table"}, nil)
	descShards = prometheus.NewDesc("outbox_relay_shards", "Leases of the table that this process holds.", []string{"table"}, nil)
)

// leases counts the leases that this process holds, by table. Its zero value is ready.
type leases struct {
	mu   sync.Mutex
	held map[string]int
}

// add returns how many are held then.
func (l *leases) add(table string, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]int{}
	}
	l.held[table] = max(l.held[table]+n, 0)
	return l.held[table]
}

// collect reports on the given tables and on those that were ever held.
func (l *leases) collect(ch chan<- prometheus.Metric, tables []string) {
	l.mu.Lock()
	held := maps.Clone(l.held)
	l.mu.Unlock()
	all := slices.AppendSeq(slices.Clone(tables), maps.Keys(held))
	slices.Sort(all)
	for _, table := range slices.Compact(all) {
		n := held[table]
		ch <- prometheus.MustNewConstMetric(descLeader, prometheus.GaugeValue, float64(min(n, 1)), table)
		ch <- prometheus.MustNewConstMetric(descShards, prometheus.GaugeValue, float64(n), table)
	}
}
