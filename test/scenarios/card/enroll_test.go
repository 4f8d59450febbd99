//go:build linux && cgo

package card

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestEnroll: a key that needs a touch for every use is enrolled, and the card and the request say so.
func TestEnroll(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.atRest("enrollment")
	t.Run("the request carries the attestation", p.testAttestation)
	t.Run("the card tells what is on it", func(t *testing.T) {
		p := p.in(t)
		var key struct{ Origin, TouchPolicy, PINPolicy string }
		p.json(&key, "key", "show", "--key", p.uri)
		if key.Origin != "generated" || key.TouchPolicy != "always" || key.PINPolicy != "once" {
			t.Errorf("the key: %+v", key)
		}
		if out := p.ok(p.Kubehsm(t.Context(), "certificate", "show", "--key", p.uri)); !strings.Contains(out, "jane") {
			t.Errorf("the certificate in the slot: %s", out)
		}
		p.atRest("key show")
	})
	if pin, puk := p.card.PINRetries(); pin != 3 || puk != 3 {
		t.Errorf("%d tries of the PIN and %d of the PUK are left", pin, puk)
	}
}

// testAttestation looks at the request as an approver does, and holds it against
// the card's own maker.
func (p *person) testAttestation(t *testing.T) {
	p = p.in(t)
	admin := lab.Run{Env: []string{"KUBECONFIG=" + p.Cluster.AdminKubeconfig()}}
	name := p.request()
	// Nobody but this test knows the maker of the card.
	out := p.ok(p.Run(t.Context(), admin, p.Binary, "csr", "show", name))
	if !strings.Contains(out, "present, not verified") || !strings.Contains(out, "not traced to a trusted maker") {
		t.Errorf("csr show: %s", out)
	}
	pkcs10, err := p.Cluster.Admin(t.Context(), "", "get", "csr", name, "-o",
		"go-template={{.spec.request | base64decode}}")
	must.OK(t, err)
	file, root := filepath.Join(p.Dir, "request.pem"), filepath.Join(p.Dir, "root.pem")
	maker := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vcard.DefaultCA().Certificate.Raw})
	must.OK(t, errors.Join(os.WriteFile(file, []byte(pkcs10), 0o600), os.WriteFile(root, maker, 0o600)))
	out = p.ok(p.Kubehsm(t.Context(), "attestation", "verify", file, "--root", root))
	if !strings.Contains(out, "12345678, firmware 5.7.1, PIN once, touch always") ||
		!strings.Contains(out, "is for this very key") {
		t.Errorf("attestation verify: %s", out)
	}
	out = p.ok(p.Run(t.Context(), admin, p.Binary, "csr", "show", name, "--root", root))
	if !strings.Contains(out, "verified to ") ||
		!strings.Contains(out, "12345678, firmware 5.7.1, PIN once, touch always") {
		t.Errorf("csr show, with the maker's root: %s", out)
	}

	// Left out, for signers that refuse it.
	s := p.terminal(p.Binary, "csr", "create", "--context", lab.Context, "--key", p.uri, "--user", "jane", "--name",
		"unattested", "--no-attestation")
	s.Answer(pinPrompt, ownPIN)
	p.touch(s)
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	out = p.ok(p.Run(t.Context(), admin, p.Binary, "csr", "show", "unattested", "--root", root))
	if !strings.Contains(out, "none: only the requester says that the key is in a token") {
		t.Errorf("csr show, without attestation: %s", out)
	}

	// Taken from somebody's request, for a key that is in no token.
	filed, err := csr.InspectRequest([]byte(pkcs10))
	must.OK(t, err)
	taken, err := attest.FromExtensions(filed.Extensions)
	must.OK(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	forged, err := csr.NewRequest(key, csr.Subject{User: "jane"},
		csr.RequestOptions{ExtraExtensions: attest.Extensions(taken)})
	must.OK(t, err)
	object, err := csr.Spec{Name: "forged", Request: forged}.Object()
	must.OK(t, err)
	object.APIVersion, object.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
	manifest, err := json.Marshal(object)
	must.OK(t, err)
	if _, err := p.Cluster.Admin(t.Context(), string(manifest), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	out = p.ok(p.Run(t.Context(), admin, p.Binary, "csr", "show", "forged", "--root", root))
	if !strings.Contains(out, "present, not verified") || !strings.Contains(out, "the attestation is for another key") {
		t.Errorf("csr show, with another key's attestation: %s", out)
	}
}

// request returns the name of the request for the key on the card.
func (p *person) request() string {
	p.t.Helper()
	var key struct{ Fingerprint string }
	p.json(&key, "key", "show", "--key", p.uri)
	var list struct {
		Requests []struct{ Name, Fingerprint string }
	}
	p.json(&list, "csr", "list", "--context", lab.Context)
	for _, r := range list.Requests {
		if r.Fingerprint == key.Fingerprint {
			return r.Name
		}
	}
	p.t.Fatalf("no request for the key %s in %+v", key.Fingerprint, list.Requests)
	return ""
}

// own changes the factory's values, as their owner does.
func (p *person) own() {
	p.t.Helper()
	p.secrets("token pin change --pin-fd 3 --new-pin-fd 4", vcard.DefaultPIN, ownPIN)
	p.secrets("token puk change --puk-fd 3 --new-puk-fd 4", vcard.DefaultPUK, ownPUK)
	p.secrets("token management-key set --protect --pin-fd 3", ownPIN)
	if !p.card.CheckPIN(ownPIN) || !p.card.CheckPUK(ownPUK) {
		p.t.Fatal("the PIN and PUK are not as set")
	}
	p.atRest("the change of its secrets")
}

// secrets runs the program with secrets on descriptors 3 and up.
func (p *person) secrets(command string, secrets ...string) {
	p.t.Helper()
	script := fmt.Sprintf("exec kubehsm %s --token '%s'", command, p.uri)
	for i, secret := range secrets {
		file := filepath.Join(p.t.TempDir(), "secret")
		must.OK(p.t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
		script += fmt.Sprintf(" %d<%s", 3+i, file)
	}
	p.ok(p.Run(p.t.Context(), lab.Run{}, "/bin/sh", "-c", script))
}

// json runs the program with -o json and reads what it prints.
func (p *person) json(into any, args ...string) {
	p.t.Helper()
	out := p.ok(p.Kubehsm(p.t.Context(), append(args, "-o", "json")...))
	if err := json.Unmarshal([]byte(out), into); err != nil {
		p.t.Fatalf("%v in %q", err, out)
	}
}
