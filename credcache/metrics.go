package credcache

import "github.com/prometheus/client_golang/prometheus"

// collector sums the shards' counts when it is scraped.
type collector[K comparable, V any] struct {
	c                                                *Cache[K, V]
	lookups, loads, running, evicted, inval, entries *prometheus.Desc
}

func newCollector[K comparable, V any](c *Cache[K, V]) *collector[K, V] {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rpcgate_cache_"+name, help, labels, prometheus.Labels{"cache": c.o.Name})
	}
	return &collector[K, V]{
		c: c,
		lookups: desc("requests_total", "Answers by where they came from: hit, negative (a remembered miss), "+
			"stale, failing (a remembered failure), or miss (waited for a look-up).", "result"),
		loads:   desc("loads_total", "Look-ups by outcome; busy: refused for max_loads.", "outcome"),
		running: desc("loads_in_flight", "Look-ups running now."),
		evicted: desc("evictions_total", "Entries pushed out by others.", "kind"),
		inval:   desc("invalidations_total", "Entries forgotten by request."),
		entries: desc("entries", "Entries remembered now.", "kind"),
	}
}

// Describe implements prometheus.Collector.
func (m *collector[K, V]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.lookups, m.loads, m.running, m.evicted, m.inval, m.entries} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *collector[K, V]) Collect(ch chan<- prometheus.Metric) {
	var n counts
	var good, bad int
	for i := range m.c.shards {
		s := &m.c.shards[i]
		s.mu.Lock()
		n.add(&s.n)
		good += s.good.Len()
		bad += s.bad.Len()
		s.mu.Unlock()
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter(m.lookups, n.hits, "hit")
	counter(m.lookups, n.misses, "miss")
	counter(m.lookups, n.stale, "stale")
	counter(m.lookups, n.negative, "negative")
	counter(m.lookups, n.failing, "failing")
	for i, v := range n.loads {
		counter(m.loads, v, outcomeNames[i])
	}
	gauge(m.running, len(m.c.slots))
	counter(m.evicted, n.evictions, "entry")
	counter(m.evicted, n.negativeEvictions, "negative")
	counter(m.inval, n.invalidated)
	gauge(m.entries, good, "entry")
	gauge(m.entries, bad, "negative")
}

func (n *counts) add(o *counts) {
	n.hits += o.hits
	n.misses += o.misses
	n.stale += o.stale
	n.negative += o.negative
	n.failing += o.failing
	for i, v := range o.loads {
		n.loads[i] += v
	}
	n.evictions += o.evictions
	n.negativeEvictions += o.negativeEvictions
	n.invalidated += o.invalidated
}
