package cli

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// TestAgentPort: the bridge moves with the kubeconfig entries that lead to it,
// and only with a yes.
func TestAgentPort(t *testing.T) {
	b := newBench(t)
	path := b.kubeconfig()
	b.enrolled("prod-hsm", "https://127.0.0.1:1", hsm.Slot{})
	b.ok("kubeconfig", "set", "prod-hsm", "--yes")
	first := strings.TrimSpace(b.ok("agent", "port"))
	if !strings.Contains(b.read(path), "https://"+first+"/c/prod-hsm") {
		t.Fatalf("the entry does not lead to %s", first)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)

	b.fails(2, "between 1024 and 65535", "agent", "port", "80")
	b.fails(1, "port is taken", "agent", "port", port, "--yes")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b.ask = hsmtest.NewScript(t, hsmtest.No())
	b.fails(130, "nothing was changed", "agent", "port", port)
	b.ask = nil
	if strings.TrimSpace(b.ok("agent", "port")) != first || !strings.Contains(b.read(path), first) {
		t.Fatal("it moved without a yes")
	}
	b.ok("agent", "port", port, "--yes")
	if got := strings.TrimSpace(b.ok("agent", "port")); got != free {
		t.Errorf("it is on %s, not %s", got, free)
	}
	if c := b.read(path); !strings.Contains(c, "https://"+free+"/c/prod-hsm") || strings.Contains(c, first) {
		t.Errorf("the entry was not written anew:\n%s", c)
	}
}
