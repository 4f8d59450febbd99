package main

import (
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// stored reads the requests from etcd, past the API server and the approver.
func (l *lab) stored() outcome {
	l.t.Helper()
	all, err := l.c.Stored(l.t.Context(), "/registry/certificatesigningrequests/")
	if err != nil {
		l.t.Fatal(err)
	}
	o := outcome{byName{}, byName{}, byName{}, byName{}}
	for _, raw := range all {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		obj := object.(*certificatesv1.CertificateSigningRequest)
		switch csr.StateOf(obj).State {
		case csr.Denied:
			o.denied[obj.Name] = obj
		case csr.Pending:
			o.pending[obj.Name] = obj
		default:
			o.approved[obj.Name] = obj
			if len(obj.Status.Certificate) > 0 {
				o.issued[obj.Name] = obj
			}
		}
	}
	return o
}

// fileAll files n requests, every twentieth forged, eight at a time.
func (c *crowd) fileAll(n int, file func(int) *person) {
	c.l.t.Helper()
	var wait sync.WaitGroup
	slots := make(chan struct{}, 8)
	errs := make(chan error, n)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.file(file(i)); err != nil {
				errs <- err
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		c.l.t.Error(err)
	}
}

func (c *crowd) any(i int) *person {
	if i%20 == 0 {
		return c.forged(i)
	}
	return c.right(i)
}

// check looks for a forged request that was approved, and for a right one that was not.
func (o outcome) check(t testing.TB, n int) {
	t.Helper()
	if all := len(o.approved) + len(o.denied) + len(o.pending); all < n {
		t.Errorf("%d requests of %d are stored", all, n)
	}
	for name := range o.approved {
		if strings.HasPrefix(name, "forged") {
			t.Errorf("%s was approved", name)
		}
	}
	for name, obj := range o.denied {
		if strings.HasPrefix(name, "right") {
			t.Errorf("%s was denied: %+v", name, obj.Status.Conditions)
		}
		if obj.Status.Conditions[0].Message == "" || obj.Status.Conditions[0].Reason == "" {
			t.Errorf("%s was denied without a word", name)
		}
	}
	for name := range o.pending {
		t.Errorf("%s waits", name)
	}
}

// TestApprover has the program decide on 160 requests, real ones and forged ones of
// every kind, with two replicas, and tells it by what is in etcd.
func TestApprover(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	first := l.start()
	poll.Until(t, "it is ready", func() bool {
		said, err := first.get(t.Context(), first.probes, "/readyz")
		return err == nil && said == "ok"
	})
	second := l.start()
	c := newCrowd(l)
	const n = 160
	c.fileAll(n, c.any)
	poll.Until(t, "all are decided on", func() bool { return len(l.stored().pending) == 0 })
	poll.Until(t, "all are issued", func() bool { o := l.stored(); return len(o.issued) == len(o.approved) })
	l.stored().check(t, n)

	// The next leader goes on where the first was killed.
	first.kill()
	c.fileAll(20, func(i int) *person { return c.right(n + 1 + i) })
	poll.Until(t, "the second replica leads", func() bool { return len(l.stored().pending) == 0 })
	l.stored().check(t, n+20)
	poll.Until(t, "the roster has all certificates", func() bool {
		return !strings.Contains(l.kubectl("-n", "kubehsm-system", "get", "htok", "-ojsonpath="+
			`{range .items[?(@.spec.state=="Active")]}{.metadata.name}={.status.notAfter}{"\n"}{end}`), "=\n")
	})
	metrics, err := second.get(t.Context(), second.metrics, "/metrics")
	for _, want := range []string{`kubehsm_decisions_total{reason="TicketProven",verdict="Approve"}`,
		"kubehsm_decision_seconds_bucket",
		`kubehsm_tokens{model="YubiKey 5C",remaining="1d",state="Active",touch="cached"}`} {
		if err != nil || !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics: %v", want, err)
		}
	}
	if out := l.kubectl("get", "events.events.k8s.io", "-A"); strings.Contains(out, "TicketProven") ||
		strings.Contains(out, "NotAsTicket") {
		t.Errorf("events: %s", out)
	}
}
