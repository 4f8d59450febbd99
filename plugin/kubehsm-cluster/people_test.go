//go:build linux && cgo

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

var people = flag.Int("people", 50, "how many people come, from a list to signed in")

// cardPIN is that of everybody's card: a PIV PIN has at most 8 digits.
const cardPIN = "73916402"

// TestPeople brings people from a list to signed in: the help desk imports people.csv, everybody puts in
// a card and runs the same `kubehsm join`, and nobody decides on anything.
func TestPeople(t *testing.T) {
	cards := vcard.ForTest(t)
	l := newLab(t, controlplane.Options{})
	l.start()
	for role, group := range map[string]string{"view": "dev", "kubehsm:ticket": joiners} {
		l.kubectl("create", "clusterrolebinding", group, "--clusterrole="+role, "--group="+group)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	binary, err := e2e.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	join := write("token", newCrowd(l).join)
	discovery := l.discoveryFile(filepath.Join(dir, "cluster.conf"))

	list := strings.Builder{}
	list.WriteString("serial,owner,groups,horizon\n")
	const first = 20000000
	for i := range *people {
		fmt.Fprintf(&list, "%d,user-%d,dev,\n", first+i, i)
	}
	desk, err := l.c.KubeconfigFor("jill", "kubehsm:helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	at := l.home(t, binary)
	if _, err := e2e.Succeeded(at.Run(t.Context(), e2e.Run{Env: []string{"KUBECONFIG=" + desk}}, binary, "roster", "import",
		write("people.csv", list.String()), "--yes")); err != nil {
		t.Fatal(err)
	}
	imported := time.Since(begin)

	begin = time.Now()
	for i := range *people {
		card := vcard.New(vcard.Config{Serial: uint32(first + i), CA: l.maker})
		card.SetPIN(cardPIN)
		cards.Renew(t, 0, card)
		p := l.home(t, binary)
		user := fmt.Sprintf("user-%d", i)
		if _, err := e2e.Succeeded(p.KubehsmPIN(t.Context(), cardPIN, "join", "--discovery-file", discovery,
			"--tls-bootstrap-token", join, "--hsm", fmt.Sprintf("piv:serial=%d", first+i), "--user", user, "--group", "dev",
			"--expiration", "24h", "--name", "prod-hsm", "--accept-risk", "default-secrets", "--yes")); err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		who, err := e2e.Succeeded(p.Kubectl(t.Context(), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
		if err != nil || who != user {
			t.Errorf("kubectl is %q, not %s: %v", who, user, err)
		}
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d people: imported in %.1f s, joined in %.1f s", *people, imported.Seconds(), time.Since(begin).Seconds())

	o := l.stored()
	if len(o.issued) != *people || len(o.denied)+len(o.pending) != 0 {
		t.Errorf("%d certificates for %d people, %d denied, %d wait", len(o.issued), *people, len(o.denied), len(o.pending))
	}
	for name, obj := range o.issued {
		if c := condition(obj); c.Reason != judge.ReasonRoster {
			t.Errorf("%s was approved as %s: %s", name, c.Reason, c.Message)
		}
	}
	if reviews := l.kubectl("-n", "kubehsm-system", "get", "requestreviews", "-o", "name"); reviews != "" {
		t.Errorf("the desk was asked:\n%s", reviews)
	}
}

// home is what one person has: a home folder, the program, and no credential.
func (l *lab) home(t *testing.T, binary string) *e2e.Lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubehsm-") // a short name: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p, err := e2e.New(dir, e2e.Options{Cluster: l.c, Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// discoveryFile says where the cluster is and what to trust.
func (l *lab) discoveryFile(name string) string {
	l.t.Helper()
	ca, err := os.ReadFile(l.c.CAFile())
	if err != nil {
		l.t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters[""] = &api.Cluster{Server: l.c.Server(), CertificateAuthorityData: ca}
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		l.t.Fatal(err)
	}
	return name
}
