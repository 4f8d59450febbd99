package desk

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRBACUnreachable: what reads other objects than requests says as plainly
// that nobody is there.
func TestRBACUnreachable(t *testing.T) {
	e, _ := flowtest.Env(t)
	server := flowtest.New(t, "admin").Server
	flowtest.PointAt(t, e, server)
	server.Close()
	_, err := NewRoles(e).Check(t.Context(), "", nil)
	if !errors.Is(err, apierror.ErrUnreachable) || strings.Contains(err.Error(), `Get "`) ||
		!strings.Contains(hinting.Of(err), "reachable from here") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
}
