package cli

import (
	"crypto/x509"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// TestRenewAsks: a renewal is asked about, unless --yes is given or nothing is due.
func TestRenewAsks(t *testing.T) {
	b := newBench(t)
	slot, file := b.keyWithCertificate()
	e := b.enrolled("prod-hsm", "https://api.example:6443", slot)
	pem, err := os.ReadFile(file)
	must.OK(t, err)
	cert, err := csr.ParseCertificate(pem)
	must.OK(t, err)
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(t, err)
	must.OK(t, enrollment.NewStore(dirs).SaveCertificate(e, []*x509.Certificate{cert.Leaf}))
	b.ask = prompt.None()
	b.fails(5, "with --yes", "certificate", "renew", "prod-hsm")
	script := hsmtest.NewScript(t, hsmtest.No())
	b.ask = script
	b.fails(130, "nothing was changed", "certificate", "renew", "prod-hsm")
	if asked := script.Prompts(); len(asked) != 1 || asked[0].Confirm.Question != "Renew prod-hsm now?" {
		t.Errorf("%+v", asked)
	}
}
