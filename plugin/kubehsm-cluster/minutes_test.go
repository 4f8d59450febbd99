//go:build minutes && linux && cgo

package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/fleet"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestRenewalMinutes: the approver approves `certificate renew` of a certificate of ten minutes, the
// shortest that Kubernetes signs; then the agent renews it by itself, twice in a row, while one kubectl
// watches. No clock is moved and nobody is asked.
func TestRenewalMinutes(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	// A key in SoftHSM is attested by nobody.
	if err := fleet.SetPolicy(t.Context(), l.c, map[string]any{"renewUnrostered": true}); err != nil {
		t.Fatal(err)
	}
	l.start()
	for _, role := range []string{"view", "kubehsm:ticket"} {
		l.kubectl("create", "clusterrolebinding", "dev-"+strings.ReplaceAll(role, ":", "-"), "--clusterrole="+role,
			"--group=dev")
	}
	dir, err := os.MkdirTemp("", "kubehsm-") // a short name: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary, err := e2e.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, err := e2e.New(dir, e2e.Options{Cluster: l.c, Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	if err := e2e.Rights(t.Context(), l.c); err != nil {
		t.Fatal(err)
	}
	p := &e2e.Person{Lab: home, T: t}
	defer func() {
		if err := home.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()

	withPIN := func(args ...string) {
		t.Helper()
		if _, err := e2e.Succeeded(p.KubehsmPIN(t.Context(), e2e.PIN, args...)); err != nil {
			t.Fatal(err)
		}
	}
	withPIN("enroll", "--user", e2e.User, "--group", "dev", "--approve-with", l.c.AdminKubeconfig(),
		"--expiration", "10m", "--yes")
	withPIN("certificate", "renew", e2e.Enrolled, "--yes")

	certificate := func() *x509.Certificate {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(p.Home, "state", "certificates", "*", e2e.Enrolled+".pem"))
		if err != nil || len(files) != 1 {
			t.Fatalf("certificates: %v, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	watch := p.Terminal(nil, filepath.Join(p.Dir, "bin", "kubectl"), "get", "namespaces", "--watch", "-o", "name")
	watch.WaitFor("namespace/default")
	for _, name := range []string{"renewed-once", "renewed-twice"} {
		present := certificate()
		left := time.Until(present.NotAfter)
		if !poll.Within(left, func() bool {
			<-time.After(time.Second)
			return !certificate().Equal(present)
		}) {
			t.Fatalf("not renewed: the certificate ended %s; requests:\n%s", present.NotAfter, l.kubectl("get", "csr"))
		}
		t.Logf("%s: %s before the end of the last one", name, time.Until(present.NotAfter).Truncate(time.Second))
		l.kubectl("create", "namespace", name)
		watch.WaitFor("namespace/" + name)
		out, err := e2e.Succeeded(p.Kubectl(t.Context(), "get", "namespaces"))
		if err != nil || !strings.Contains(out, name) {
			t.Errorf("kubectl: %v\n%s", err, out)
		}
	}
	watch.Press(term.CtrlC)
	if out := l.stored(); len(out.approved) != 4 || len(out.denied)+len(out.pending) != 0 {
		t.Errorf("%d requests approved, not the enrollment's and three renewals; %d denied, %d wait", len(out.approved),
			len(out.denied), len(out.pending))
	}
}
