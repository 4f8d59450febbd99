//go:build linux && cgo

package card

import (
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestWaitingForATouchElsewhere: whoever needs the card while another terminal's
// command waits for its touch is told where: to sign in, to sign for another program,
// and to agree to a request.
func TestWaitingForATouchElsewhere(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
	waits := func(s *term.Session, whom string) {
		t.Helper()
		s.WaitUntil("it says why it waits", lab.Says(`waiting: a touch of "`, "is awaited on /dev/pts/",
			"("+whom+", process "))
	}
	ends := func(s *term.Session, with string) {
		t.Helper()
		s.WaitFor(with)
		if s.Exit(); strings.Contains(s.Screen(), "waiting") {
			t.Errorf("left on the screen:\n%s", s.Screen())
		}
	}

	first := p.terminal(p.Cluster.Kubectl(), "get", "namespaces", "-o", "name")
	first.Answer(pinPrompt, ownPIN)
	first.WaitFor(touchPrompt)
	second := p.terminal(p.Cluster.Kubectl(), "get", "pods", "-o", "name")
	waits(second, "kubectl get namespaces")
	signer := p.terminal(p.Binary, `{"apiVersion":"`+wire.APIVersion+`","kind":"SignRequest","configuration":{"uri":"`+
		p.uri+`"},"digest":"`+
		base64.StdEncoding.EncodeToString(make([]byte, crypto.SHA256.Size()))+
		`","signerOptsType":"crypto.Hash","signerOpts":"5"}`)
	waits(signer, "kubectl get namespaces")
	p.touch(first)
	ends(first, "namespace/default")
	second.WaitGone("waiting")
	second.Exit()
	p.touch(signer)
	ends(signer, "SignResponse")

	p.consents("writes")
	name := strings.ToLower(rand.Text()[:8])
	first = p.terminal(p.Cluster.Kubectl(), "create", "configmap", "first-"+name)
	p.touch(first) // another policy begins with another connection
	first.WaitFor("create configmaps", `Namespace     "default"`, touchPrompt)
	second = p.terminal(p.Cluster.Kubectl(), "create", "configmap", "second-"+name)
	waits(second, "kubectl create configmap first-"+name)
	p.touch(first)
	ends(first, "first-"+name+" created")
	p.touch(second)
	ends(second, "second-"+name+" created")
}
