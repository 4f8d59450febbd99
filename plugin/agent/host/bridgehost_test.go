package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
)

// TestClientKnowsTheBridge: a client that does not know the bridge is told before anybody is
// asked for a PIN.
func TestClientKnowsTheBridge(t *testing.T) {
	r := newRig(t, rigOptions{})
	stranger, err := loopback.NewAuthority("kubehsm bridge", time.Hour)
	check(t, err)
	_, err = r.prepareKnowing(loopback.CertificatePEM(stranger.Certificate.Raw), hsmtest.NewScript(t))
	if err == nil || !strings.Contains(err.Error(), "does not know kubehsm's bridge on this computer") ||
		!strings.Contains(hint.Of(err), "kubehsm kubeconfig set prod") {
		t.Errorf("%v (%s)", err, hint.Of(err))
	}
	_, err = r.prepareKnowing(r.ep.CAPEM, hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
}

func (r *rig) prepareKnowing(authorities []byte, p hsm.Prompter) (message.Session, error) {
	return r.dial().Prepare(context.Background(), client.PrepareRequest{Enrollment: "prod", Purpose: as(caller(1)),
		Authorities: authorities}, p)
}
