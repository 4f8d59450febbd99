//go:build bars

package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

var requests = flag.Int("requests", 10000, "how many requests, every twentieth forged")

// The bars: decisions a second against serial `kubectl certificate approve`, and memory
// with all requests against a tenth of them.
const (
	barRate   = 10
	barMemory = 1.5
)

// value sums the samples of a metric of a replica; 0 where it does not answer.
func (r *replica) value(t *testing.T, metric string) (sum float64) {
	text, err := r.get(t.Context(), r.metrics, "/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == metric || strings.HasPrefix(name, metric+"{") {
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

func (r *replica) decided(t *testing.T) float64 { return r.value(t, "kubehsm_decisions_total") }

// TestBars files many requests while no approver runs, has it decide on them while its
// leader is killed and the API server restarted, and counts in etcd.
func TestBars(t *testing.T) {
	l := newLab(t, controlplane.Options{ControllersFlags: []string{"--kube-api-qps=500", "--kube-api-burst=1000"}})
	c := newCrowd(l)
	done := func(limit time.Duration) {
		t.Helper()
		if !poll.Within(limit, func() bool {
			<-time.After(2 * time.Second) // reading all of them is work for etcd
			return len(l.stored().pending) == 0
		}) {
			t.Fatalf("%d requests wait", len(l.stored().pending))
		}
	}
	memory := func(r *replica) float64 { return r.value(t, "process_resident_memory_bytes") / (1 << 20) }

	const serial = 20
	byKubectl := func(from int) (rate float64) {
		t.Helper()
		c.fileAll(serial, func(i int) *person { return c.right(from + i) })
		begin := time.Now()
		for i := range serial {
			l.kubectl("certificate", "approve", fmt.Sprintf("right-%05d", from+i))
		}
		return serial / time.Since(begin).Seconds()
	}
	kubectl := byKubectl(2000000)

	tenth := *requests / 10
	replicas := []*replica{l.start(), l.start()}
	c.fileAll(tenth, c.any)
	c.ticketUser(3000000) // for replays in the backlog
	done(5 * time.Minute)
	little := max(memory(replicas[0]), memory(replicas[1]))
	for _, r := range replicas {
		r.kill()
	}
	c.backlog = true
	c.fileAll(*requests-tenth, func(i int) *person { return c.any(tenth + i) })

	replicas = []*replica{l.start(), l.start()}
	leader := replicas[0]
	poll.Until(t, "a replica leads", func() bool {
		if replicas[1].decided(t) > 0 {
			leader = replicas[1]
		}
		return leader.decided(t) > 0
	})
	first, begin := leader.decided(t), time.Now()
	poll.Until(t, "a third is decided on", func() bool {
		<-time.After(200 * time.Millisecond) // reading metrics is work for the leader
		return leader.decided(t) > float64(*requests-tenth)/3
	})
	rate := (leader.decided(t) - first) / time.Since(begin).Seconds()
	leader.kill()
	last := replicas[0]
	if leader == last {
		last = replicas[1]
	}
	poll.Until(t, "the other leads", func() bool { return last.decided(t) > float64(*requests)/20 })
	if err := l.c.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	replicas = append(replicas, l.start()) // as the Deployment would
	done(15 * time.Minute)
	much := memory(replicas[2])
	if last.alive() {
		much = max(much, memory(last))
	} else { // on a busy machine the API server is away for longer than a lease lasts
		t.Error("the leader ended while the API server was restarted: its memory is not known")
	}
	for _, r := range replicas {
		r.kill()
	}
	kubectl = (kubectl + byKubectl(2100000)) / 2 // before and after: other work on the machine comes and goes
	o := l.stored()
	o.check(t, *requests+2*serial)
	t.Logf("%d approved, %d denied, %d issued; %.0f decisions/s, kubectl %.1f/s: %.1f times; "+
		"%.0f MB, with a tenth %.0f MB: %.2f times",
		len(o.approved), len(o.denied), len(o.issued), rate, kubectl, rate/kubectl, much, little, much/little)
	if rate < barRate*kubectl {
		t.Errorf("%.1f times as fast as kubectl, not %d", rate/kubectl, barRate)
	}
	if much > barMemory*little {
		t.Errorf("%.2f times the memory, more than %.1f", much/little, barMemory)
	}
}
