//go:build linux && cgo

package card

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

const filers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: developers-file}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: csr-filer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
`

// TestRenew renews on a card, which one program holds at a time: with the same
// key, and with a new one in a slot beside it, no weaker than the old. The
// approver verifies the new key's attestation with the maker's own root.
func TestRenew(t *testing.T) {
	p := newPerson(t)
	p.own()
	must.OK(t, p.Cluster.Apply(t.Context(), filers))
	approve := []string{"--approve-with", p.Cluster.AdminKubeconfig()}
	p.ok(p.KubehsmPIN(t.Context(), ownPIN, append(approve, "enroll", "--token", p.uri, "--pin-policy", "once",
		"--touch-policy", "never",
		"--user", "jane", "--group", lab.DevelopersGroup, "--yes")...))
	const name = lab.Context + "-hsm"
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	p.ok(p.KubehsmPIN(t.Context(), ownPIN, append(approve, "certificate", "renew", name, "--yes")...))
	p.atRest("a renewal")

	out := p.ok(p.KubehsmPIN(t.Context(), ownPIN, append(approve, "certificate", "renew", name, "--new-key", "--yes")...))
	if !strings.Contains(out, "slot=9a") { // the old key is named, to be deleted
		t.Errorf("renew --new-key: %s", out)
	}
	if p.card.Public(0x9a) == nil || p.card.Public(0x82) == nil {
		t.Fatal("the new key is not beside the old one")
	}
	p.uri = "piv:serial=12345678;slot=82"
	var key struct{ TouchPolicy, PINPolicy string }
	p.json(&key, "key", "show", "--key", p.uri)
	if key.TouchPolicy != "never" || key.PINPolicy != "once" {
		t.Errorf("the new key: %+v", key)
	}
	if out := p.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	root := filepath.Join(p.Dir, "root.pem")
	maker := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vcard.DefaultCA().Certificate.Raw})
	must.OK(t, os.WriteFile(root, maker, 0o600))
	admin := lab.Run{Env: []string{"KUBECONFIG=" + p.Cluster.AdminKubeconfig()}}
	out = p.ok(p.Run(t.Context(), admin, p.Binary, "csr", "show", p.request(), "--root", root))
	if !strings.Contains(out, "verified to ") || !strings.Contains(out, "12345678") {
		t.Errorf("csr show --root: %s", out)
	}
	p.atRest("all of it")
}
