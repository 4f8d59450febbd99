package flow

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
)

// TestRBACUnreachable: what reads other objects than requests says as plainly
// that nobody is there.
func TestRBACUnreachable(t *testing.T) {
	e, _ := testEnv(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Kubeconfig, []byte(strings.ReplaceAll(testKubeconfig, "10.0.0.2:6443", l.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = NewRoles(&e.Env).Check(context.Background(), "open", nil)
	if !errors.Is(err, csr.ErrUnreachable) || strings.Contains(err.Error(), `Get "`) || !strings.Contains(hsm.Hint(err), "reachable from here") {
		t.Errorf("%v, hint %q", err, hsm.Hint(err))
	}
}
