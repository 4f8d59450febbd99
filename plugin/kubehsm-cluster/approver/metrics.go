package approver

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Metrics are what Prometheus reads of the approver.
type Metrics struct {
	decisions *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	missing   prometheus.Gauge
	cache     client.Reader
	informers *Informers
	tokens    *prometheus.Desc
	policies  *prometheus.Desc
}

// NewMetrics makes them; tokens are counted in the cache, whose informers are given, when somebody reads.
func NewMetrics(cache client.Reader, informers *Informers) *Metrics {
	return &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubehsm_decisions_total",
			Help: "Certificate requests by what was decided on them, and why."}, []string{"verdict", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubehsm_decision_seconds",
			Help:    "Time from the creation of a request to its approval or denial.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 3600, 6 * 3600, 24 * 3600}}, []string{"verdict"}),
		missing: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubehsm_missing_rights",
			Help: "Rights that the approver lacks; its log and the Events on its Deployment name them."}),
		cache: cache, informers: informers,
		tokens: prometheus.NewDesc("kubehsm_tokens",
			"Tokens of the roster, by their state, the remaining life of their certificate, touch policy and model.",
			[]string{"state", "remaining", "touch", "model"}, nil),
		policies: prometheus.NewDesc("kubehsm_revocation_policies",
			"Admission policies with the list of revoked certificates, by their state: ok, differs, unbound or unreadable.",
			[]string{"state"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.decisions.Describe(to)
	m.seconds.Describe(to)
	m.missing.Describe(to)
	to <- m.tokens
	to <- m.policies
}

// readTimeout bounds one reading of the roster, which is in memory.
const readTimeout = 5 * time.Second

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.decisions.Collect(to)
	m.seconds.Collect(to)
	m.missing.Collect(to)
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	m.collectPolicies(ctx, to)
	if _, err := (facts{ctx: ctx, cache: m.cache}).Token(""); err != nil { // not before the cache is filled
		to <- prometheus.NewInvalidMetric(m.tokens, err)
		return
	}
	count := map[[4]string]int{}
	for _, o := range m.informers.tokens.List() {
		if t, ok := o.(*clusterapi.HardwareToken); ok {
			count[[4]string{string(t.Spec.State), remaining(t.Status, time.Now()), t.Status.Touch, t.Status.Model}]++
		}
	}
	for labels, n := range count {
		to <- prometheus.MustNewConstMetric(m.tokens, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

// collectPolicies counts the policies that hold the list of revoked certificates. Alert on those
// that have no effect, or other rules than kubehsm's.
func (m *Metrics) collectPolicies(ctx context.Context, to chan<- prometheus.Metric) {
	list, err := facts{ctx: ctx, cache: m.cache}.revoked()
	if err != nil {
		to <- prometheus.NewInvalidMetric(m.policies, err)
		return
	}
	count := map[string]int{"ok": 0, "differs": 0, "unbound": 0, "unreadable": 0}
	for _, s := range list.Shards {
		switch {
		case s.Err != nil:
			count["unreadable"]++
		case !s.Bound:
			count["unbound"]++
		case s.Differs:
			count["differs"]++
		default:
			count["ok"]++
		}
	}
	for state, n := range count {
		to <- prometheus.MustNewConstMetric(m.policies, prometheus.GaugeValue, float64(n), state)
	}
}

// remaining is the life that a token's certificate has left, in steps.
func remaining(s clusterapi.TokenStatus, now time.Time) string {
	if s.NotAfter == nil {
		return "none"
	}
	left := s.NotAfter.Sub(now)
	for _, step := range []struct {
		under time.Duration
		label string
	}{{0, "ended"}, {time.Hour, "1h"}, {24 * time.Hour, "1d"}, {7 * 24 * time.Hour, "7d"}, {30 * 24 * time.Hour, "30d"}} {
		if left <= step.under {
			return step.label
		}
	}
	return "more"
}
