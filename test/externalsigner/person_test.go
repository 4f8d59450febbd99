//go:build linux

package externalsigner

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/externalsigner/kit"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// person is somebody with a lab and keys on its token.
type person struct {
	*lab.Lab
	t *testing.T
}

func newPerson(t *testing.T) *person {
	t.Helper()
	c := controlplane.ForTest(t)
	need.Program(t, "softhsm2-util")
	l, err := lab.New(t.TempDir(), lab.Options{Binary: programs.Kubehsm, Cluster: c})
	must.OK(t, err)
	must.OK(t, lab.Rights(t.Context(), c))
	return &person{l, t}
}

// key makes a key on the token, certified by the cluster for a developer whose
// name is the key's kind, and returns what names it.
func (p *person) key(a hsm.Algorithm) (hsm.URI, error) {
	ctx := p.t.Context()
	driver := pkcs11.New(pkcs11.Options{Modules: []pkcs11.Module{{Path: p.Soft.Module, Env: p.Soft.Env()}}})
	token, err := driver.Open(ctx, hsm.URI{Scheme: hsm.SchemePKCS11, Token: lab.Token})
	if err != nil {
		return hsm.URI{}, errors.Join(err, driver.Close())
	}
	slot, err := p.certify(ctx, token, a)
	return slot.URI, errors.Join(err, token.Close(), driver.Close())
}

func (p *person) certify(ctx context.Context, token hsm.Token, a hsm.Algorithm) (hsm.Slot, error) {
	typing := hsmtest.Typing(p.t, lab.PIN)
	slot, err := token.Generate(ctx, hsm.GenerateOptions{Label: string(a), Algorithm: a}, typing)
	if err != nil {
		return slot, err
	}
	der, err := p.Cluster.SignClient(slot.Key.Public, string(a), []string{lab.DevelopersGroup},
		time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	if err != nil {
		return slot, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return slot, err
	}
	return slot, token.StoreCertificate(ctx, slot.URI, cert, typing)
}

// configure writes a kubeconfig whose user is the provider's, with the program
// as its signer.
func (p *person) configure(config map[string]string) {
	p.t.Helper()
	config = maps.Clone(config)
	config["pathExec"] = p.Binary
	must.OK(p.t, kit.Configure(p.Lab, config))
}

// kubectl runs the kubectl with the provider, without a terminal.
func (p *person) kubectl(args ...string) lab.Result {
	p.t.Helper()
	return p.run(nil, args...)
}

func (p *person) run(env []string, args ...string) lab.Result {
	p.t.Helper()
	res, err := p.Run(p.t.Context(), lab.Run{Env: env}, programs.Kubectl, args...)
	must.OK(p.t, err)
	return res
}

// wantUser runs kubectl auth whoami.
func (p *person) wantUser(want string) lab.Result {
	p.t.Helper()
	res := p.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	if want += ` ["` + lab.DevelopersGroup + `","system:authenticated"]`; res.Code != 0 || res.Stdout != want {
		p.t.Errorf("whoami, want %s: %s", want, res)
	}
	return res
}

// spy puts a program in the signer's place that notes each start and then is
// the signer. It returns the number of starts so far.
func (p *person) spy() func() int {
	p.t.Helper()
	log := filepath.Join(p.Dir, "starts")
	real := p.Binary
	p.Binary = filepath.Join(p.Dir, "bin", "spy")
	script := "#!/bin/sh\necho >> '" + log + "'\nexec '" + real + "'\n"
	must.OK(p.t, os.WriteFile(p.Binary, []byte(script), 0o700))
	return func() int {
		b, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
}

func (p *person) other(t *testing.T, args ...string) lab.Result {
	t.Helper()
	res, err := p.Kubehsm(t.Context(), args...)
	must.OK(t, err)
	return res
}
