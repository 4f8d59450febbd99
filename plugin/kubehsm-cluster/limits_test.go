package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestLimits: a token has eight certificates at most, however fast they are asked for; a request is good for one, and
// the holder of a join line neither lists nor watches what others have filed.
func TestLimits(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.start()
	c := newCrowd(l)
	jane := c.onRoster(c.person(1, "first"))
	jane.bearer = c.token([]string{"system:bootstrappers:kubehsm:tickets"})
	for _, query := range []string{"", "?watch=1", "?watch=1&fieldSelector=metadata.name%3Dfirst"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			l.c.Server()+"/apis/certificates.k8s.io/v1/certificatesigningrequests"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+jane.bearer)
		poll.Until(t, "the join line's token is known", func() bool {
			resp, err := c.bearer.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Fatalf("the holder of a join line reads all requests with %q", query)
			}
			return resp.StatusCode == http.StatusForbidden
		})
	}

	again := *jane
	jane.request = c.pkcs10(jane)
	again.name, again.request = "again", jane.request
	for _, p := range []*person{jane, &again} { // at once
		if err := c.file(p); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(n int) outcome {
		t.Helper()
		var o outcome
		poll.Until(t, fmt.Sprintf("%d are decided on", n), func() bool {
			o = l.stored()
			return len(o.pending) == 0 && len(o.approved)+len(o.denied) == n
		})
		return o
	}
	o := decided(2)
	if len(o.approved) != 1 {
		t.Fatalf("%d requests of two that are the same are approved", len(o.approved))
	}
	for _, obj := range o.denied {
		if condition(obj).Reason != judge.ReasonKeyUsed {
			t.Errorf("the other one: %+v", condition(obj))
		}
	}

	const more = 12
	for i := range more {
		p := *jane
		p.name, p.request, p.key = fmt.Sprintf("more-%02d", i), nil, newKey(t)
		p.attested = p.key.Public()
		if err := c.file(&p); err != nil {
			t.Fatal(err)
		}
	}
	o = decided(2 + more)
	if len(o.approved) != clusterapi.MaxLive {
		t.Errorf("%d certificates of a token are approved", len(o.approved))
	}
	for name, obj := range o.denied {
		if said := condition(obj); !slices.Contains([]string{judge.ReasonTooMany, judge.ReasonKeyUsed}, said.Reason) {
			t.Errorf("%s: %+v", name, said)
		}
	}
	poll.Until(t, "the roster has all certificates, and no approval beside them", func() bool {
		token, now := l.token(jane), l.stored()
		if len(now.issued) != clusterapi.MaxLive || len(token.Status.Others) != clusterapi.MaxLive-1 {
			return false
		}
		for _, obj := range now.issued {
			cert, err := csr.ParseCertificate(obj.Status.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(token.Status.Live(cert.Leaf.NotBefore), func(c clusterapi.TokenCertificate) bool {
				key, err := csr.SPKIHash(cert.Leaf.PublicKey)
				return err == nil && c.Key == key
			}) {
				return false
			}
		}
		return true
	})
}
