//go:build linux && cgo

package card

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// spareSerial is the serial number of the second card.
const spareSerial = 87654321

// TestSpare: an enrollment gets the key of a second card by one command, and its context and the kubeconfig stay as they
// are. With one card pulled and the other one in, the next command goes on after one PIN, and a program that
// watches goes on with it. A lost card is taken out with the other one in hand.
func TestSpare(t *testing.T) {
	p := newPerson(t)
	p.own()
	enroll := func(prompts string, args ...string) {
		t.Helper()
		s := p.terminal(p.Binary, append([]string{"enroll", "--touch-policy", "never", "--approve-with",
			p.Cluster.AdminKubeconfig(), "--yes"}, args...)...)
		s.Answer(prompts, ownPIN)
		if code := s.Exit(); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, s.Output())
		}
	}
	enroll(pinPrompt, "--token", p.uri, "--user", "jane", "--group", lab.DevelopersGroup)
	name := strings.TrimSpace(p.kubectl("config", "current-context"))
	before := p.kubectl("config", "view", "--raw")

	spare := *p
	spare.card, spare.uri = vcard.New(vcard.Config{Serial: spareSerial}), fmt.Sprintf("piv:serial=%d;slot=9a", spareSerial)
	p.readers.Insert(t, 1, spare.card)
	spare.own()
	enroll(fmt.Sprintf("%d\" %s", spareSerial, pinPrompt), "--spare", "--token", spare.uri)
	if after := p.kubectl("config", "view", "--raw"); after != before {
		t.Errorf("the kubeconfig is\n%s\nand was\n%s", after, before)
	}

	// signsIn runs a command that the card with that serial number has to sign in for.
	signsIn := func(serial uint32) {
		t.Helper()
		s := p.terminal(p.Cluster.Kubectl(), "get", "namespaces")
		s.WaitFor(pinPrompt)
		if !s.Frame().Contains(fmt.Sprint(serial)) {
			t.Errorf("the prompt does not name the card %d:\n%s", serial, s.Screen())
		}
		s.Answer(pinPrompt, ownPIN)
		if code := s.Exit(); code != 0 || !s.Frame().Contains("kube-system") {
			t.Fatalf("exit code %d:\n%s", code, s.Output())
		}
	}
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	signsIn(12345678) // the first one signed in last by this name
	seen := p.watchNamespaces()
	p.readers.Remove(t, 0)
	poll.Until(t, "the agent has noticed", func() bool {
		return strings.Contains(p.ok(p.Kubehsm(t.Context(), "audit")), "removed")
	})
	signsIn(spareSerial)
	p.readers.Insert(t, 0, p.card)
	p.kubectl("get", "namespaces") // open connections stay with the spare
	if _, err := p.Cluster.Admin(t.Context(), "", "create", "namespace", "after-the-change"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the watch has seen a namespace after the change", func() bool {
		_, seen, err := seen.GetByKey("after-the-change")
		return err == nil && seen
	})
	p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
	signsIn(spareSerial) // both are there: the one used last, also for another agent

	p.readers.Remove(t, 0)
	s := p.terminal(p.Binary, "unenroll", name, "--token", "piv:serial=12345678", "--yes")
	s.Answer(pinPrompt, ownPIN) // the other key signs the record
	if code := s.Exit(); code != 0 || !strings.Contains(s.Output(), "removed") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	signsIn(spareSerial)
	if after := p.kubectl("config", "view", "--raw"); after != before {
		t.Errorf("the kubeconfig is\n%s\nand was\n%s", after, before)
	}
	if list := p.ok(p.Kubehsm(t.Context(), "certificate", "show", name)); !strings.Contains(list, "jane") {
		t.Errorf("the certificate that is left: %s", list)
	}
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	spare.atRest("a lock")
}

// watchNamespaces has this process watch all namespaces as the person, until the test ends, with nobody to ask. It
// returns what the watch has seen.
func (p *person) watchNamespaces() cache.Store {
	p.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	must.OK(p.t, err)
	client, err := dynamic.NewForConfig(config)
	must.OK(p.t, err)
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return namespaces.List(ctx, o)
		},
		WatchFuncWithContext: namespaces.Watch,
	}, &unstructured.Unstructured{}, 0)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	p.t.Cleanup(func() { cancel(); running.Wait() })
	poll.Until(p.t, "the watch has its first list", informer.HasSynced)
	return informer.GetStore()
}
