package host

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
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

// TestClientKnowsTheBridge: the agent seals the key that an older program left open, and
// goes on showing its certificate until a client knows the next one alone. A client that
// knows neither is told before anybody is asked for a PIN.
func TestClientKnowsTheBridge(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	bridge := filepath.Join(r.dirs.State, "bridge")
	olderIdentity(t, bridge, r.ep.Port)
	before, err := loopback.Load(r.dirs)
	check(t, err)
	if !before.Open {
		t.Fatalf("%+v", before)
	}
	r.serve(Options{})
	if _, err := os.Lstat(filepath.Join(bridge, "server.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the key lies there: %v", err)
	}
	now, err := loopback.Load(r.dirs)
	check(t, err)
	both := now.Authorities([][]byte{before.CAPEM})
	alone := now.Authorities([][]byte{both})

	stranger, err := loopback.NewAuthority("kubehsm bridge", time.Hour)
	check(t, err)
	unknown := loopback.CertificatePEM(stranger.Certificate.Raw)
	_, err = r.prepareKnowing(unknown, hsmtest.NewScript(t))
	if err == nil || !strings.Contains(err.Error(), "does not know kubehsm's bridge on this machine") ||
		!strings.Contains(hint.Of(err), "kubehsm kubeconfig set prod") {
		t.Fatalf("%v (%s)", err, hint.Of(err))
	}
	s, err := r.prepareKnowing(before.CAPEM, hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
	works := func(authorities []byte) error {
		ep := r.ep
		ep.CAPEM = authorities
		c, err := clientOfSession(ep, s)
		check(t, err)
		defer c.CloseIdleConnections()
		resp, err := c.Get(ep.URL("prod") + "/version")
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for _, authorities := range [][]byte{before.CAPEM, both} {
		_, err := r.prepareKnowing(authorities, nil)
		check(t, errors.Join(err, works(authorities)))
	}
	if err := works(alone); err == nil {
		t.Fatal("the next certificate is shown already")
	}
	_, err = r.prepareKnowing(alone, nil)
	check(t, errors.Join(err, works(alone), works(both)))
	if err := works(before.CAPEM); err == nil {
		t.Error("the former certificate is shown")
	}
	if _, err := r.prepareKnowing(before.CAPEM, nil); err == nil {
		t.Error("an entry that knows the former certificate alone is said to be good")
	}
}

func (r *rig) prepareKnowing(authorities []byte, p hsm.Prompter) (message.Session, error) {
	return r.dial().Prepare(context.Background(), client.PrepareRequest{Enrollment: "prod", Client: caller(1),
		Authorities: authorities}, p)
}

// olderIdentity puts what older programs made in the place of the folder.
func olderIdentity(t *testing.T, dir string, port int) {
	t.Helper()
	ca, err := loopback.NewAuthority("kubehsm bridge", 3650*24*time.Hour)
	check(t, err)
	der, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: ca.Certificate.NotBefore, NotAfter: ca.Certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	check(t, err)
	check(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
	for name, b := range map[string][]byte{"port": []byte(strconv.Itoa(port)), "server.key": key,
		"ca.crt": loopback.CertificatePEM(ca.Certificate.Raw), "server.crt": loopback.CertificatePEM(der)} {
		check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
}
