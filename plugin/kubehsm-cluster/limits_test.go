package main

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestLimits: a token has eight certificates at most, however fast they are asked for; a request is good for one, and
// the holder of a join line neither lists nor watches what others have filed, and keeps nobody waiting with a large request.
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

	kubelet := *jane
	kubelet.name, kubelet.signer = "kubelet", "kubernetes.io/kube-apiserver-client-kubelet"
	if err := c.file(&kubelet); err == nil || !strings.Contains(err.Error(), "for client certificates") {
		t.Errorf("a join line files a request for a node: %v", err)
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

	// Who floods the cluster fills neither the approver nor the list of what waits for a person.
	const flood = 5
	tiny := *jane
	tiny.request, tiny.attested = nil, nil
	tiny.request = c.pkcs10(&tiny)
	for i := range judge.MaxWaiting + flood {
		tiny.name = fmt.Sprintf("tiny-%03d", i)
		if err := c.file(&tiny); err != nil {
			t.Fatal(err)
		}
	}
	reviews := func() int {
		return strings.Count(l.kubectl("-n", clusterapi.Namespace, "get", "requestreviews", "-oname"), "/tiny-")
	}
	poll.Until(t, "what is too much is denied, and the rest waits", func() bool {
		o := l.stored()
		return len(o.pending) == judge.MaxWaiting && reviews() == judge.MaxWaiting
	})
	for i := range flood {
		name := fmt.Sprintf("tiny-%03d", judge.MaxWaiting+i)
		if said := condition(l.stored().denied[name]); said.Reason != judge.ReasonCrowd {
			t.Errorf("%s: %+v", name, said)
		}
	}
	tiny.name = strings.Repeat("n", 254)
	if err := c.file(&tiny); err == nil || !strings.Contains(err.Error(), "253 characters at most") {
		t.Errorf("a long name: %v", err)
	}

	large := *jane
	large.name, large.request = "Large: 30,000 groups", crowded(t, jane, 30_000) // no name of a review
	if err := c.file(&large); err == nil || !strings.Contains(err.Error(), "16 KiB at most") {
		t.Errorf("the API server takes 30,000 groups: %v", err)
	}
	large.request = crowded(t, jane, csr.MaxGroups+1)
	if err := c.file(&large); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the large one is denied", func() bool { return l.stored().denied[large.name] != nil })
	if said := condition(l.stored().denied[large.name]); !strings.Contains(said.Message, "65 groups, more than 64") {
		t.Errorf("the large one: %+v", said)
	}
}

// crowded asks for so many groups.
func crowded(t *testing.T, p *person, groups int) []byte {
	name := pkix.Name{CommonName: p.user}
	for i := range groups {
		name.Organization = append(name.Organization, fmt.Sprintf("group-%05d", i))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
