//go:build linux

package scenarios

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// request is what `csr show -o json` prints, as far as tests look at it.
type request struct {
	Name, UID, State, Message, Requester, RequesterKind, User, Fingerprint, Attestation string
	Words, Rights, RightsUnknown, Warnings                                              []string
}

// key makes a key on the lab's token and returns its URI.
func (u *user) key(label string) string {
	u.t.Helper()
	u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN, "key", "generate", "--label", label))
	return "pkcs11:token=" + lab.Token + ";object=" + label
}

// file files a request and returns its name.
func (u *user) file(key string, more ...string) string {
	u.t.Helper()
	return parse[request](u.t, u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN,
		append([]string{"csr", "create", "--key", key, "-o", "json"}, more...)...))).Name
}

// asAdmin runs the program with the cluster's admin's kubeconfig.
func (u *user) asAdmin(args ...string) lab.Result {
	u.t.Helper()
	return u.ran(u.Run(u.t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig()}}, u.Binary,
		args...))
}

func (u *user) shown(name string) request {
	u.t.Helper()
	return parse[request](u.t, u.ok(u.asAdmin("csr", "show", name, "-o", "json"), nil))
}

// names lists the requests that the arguments of csr list choose.
func (u *user) names(args ...string) (names []string) {
	u.t.Helper()
	list := parse[struct{ Requests []request }](u.t, u.kubehsm(append([]string{"csr", "list", "-o", "json"}, args...)...))
	for _, r := range list.Requests {
		names = append(names, r.Name+" "+r.State)
	}
	return names
}

// TestRequestsFromFilingToCollecting: forecast, file, list, what the approver
// sees, the words on the phone, approve, collect, cancel.
func TestRequestsFromFilingToCollecting(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	key, name := u.key("one"), unique("jo")
	var f struct {
		Forecast []struct{ ID, Verdict, Evidence string }
	}
	must.OK(t, json.Unmarshal([]byte(u.kubehsm("csr", "forecast", "--key", key, "--user", name, "-o", "json")),
		&f))
	got := map[string]string{}
	for _, p := range f.Forecast {
		if got[p.ID] = p.Verdict; p.Verdict != "unknown" && p.Evidence == "" {
			t.Errorf("%s is %s without evidence", p.ID, p.Verdict)
		}
	}
	for _, id := range []string{"create", "signer", "usages", "subject", "algorithm", "clock"} {
		if got[id] != "ok" {
			t.Errorf("the forecast of %s is %q", id, got[id])
		}
	}

	r := u.file(key, "--user", name, "--group", lab.DevelopersGroup, "--name", name, "--dns-name", "{host}",
		"--request-label", "team="+name, "--reason", "new laptop")
	if mine := u.names("--mine"); len(mine) != 1 || mine[0] != r+" pending" {
		t.Errorf("mine: %q", mine)
	}
	if got := u.names("--pending", "-l", "team="+name); len(got) != 1 {
		t.Errorf("pending: %q", got)
	}
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "csr", "create", "--key", key, "--user", name, "--name", name))
	u.wantFailure(res, 1, "csr wait "+name, "made here before")

	seen := u.shown(r)
	rights := strings.Join(seen.Rights, "\n")
	if len(seen.Words) != 8 || !strings.Contains(rights, "ClusterRole edit") ||
		len(seen.RightsUnknown) > 0 ||
		!strings.HasPrefix(seen.Attestation, "none") || len(seen.Warnings) == 0 ||
		!strings.Contains(seen.Warnings[0], lab.Filer) {
		t.Errorf("the approver sees %+v", seen)
	}
	if out := u.kubehsm("key", "show", "--key", key); !strings.Contains(out, strings.Join(seen.Words, " ")) {
		t.Errorf("the requester reads other words than %q:\n%s", seen.Words, out)
	}
	// One's own rights to decide are asked for first, and what to ask for is said.
	res = u.ran(u.Kubehsm(t.Context(), "csr", "approve", r, "--yes"))
	u.wantFailure(res, 1, "an admin", "approve on signers")
	if n := strings.Count(res.Stderr, "kubectl apply"); n != 1 {
		t.Errorf("what to send to the admin is printed %d times:\n%s", n, res.Stderr)
	}
	if res := u.asAdmin("csr", "approve", r, "--yes", "--words", "zoo zoo zoo zoo zoo zoo zoo zoo"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "not the words") {
		t.Errorf("wrong words: %s", res)
	}
	if res := u.asAdmin("csr", "approve", r, "--yes", "--words",
		strings.ToUpper(strings.Join(seen.Words, ", "))); res.Code != 0 {
		t.Fatal(res)
	}
	if m := u.shown(r).Message; !strings.HasPrefix(m, "by ") {
		t.Errorf("who approved it is not said: %q", m)
	}
	block, _ := pem.Decode([]byte(u.kubehsm("csr", "wait", r, "--timeout", "1m")))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.Subject.CommonName != name || len(leaf.DNSNames) != 1 ||
		strings.Contains(leaf.DNSNames[0], "{") {
		t.Errorf("%v: issued for %v, %q", err, leaf.Subject, leaf.DNSNames)
	}

	// What cannot succeed is not filed, unless that is insisted on.
	vain := []string{"--user", "jo", "--signer-name", "kubernetes.io/kubelet-serving"}
	u.wantFailure(u.ran(u.Kubehsm(t.Context(), append([]string{"csr", "create", "--key", key}, vain...)...)), 1,
		"--accept-risk=forecast", "signs no client certificates")
	if mine := u.names("--mine"); len(mine) != 1 {
		t.Errorf("filed: %q", mine)
	}
	res = u.ran(u.Kubehsm(t.Context(), append([]string{"csr", "forecast"}, vain...)...))
	u.wantWords(res.Stderr, "--accept-risk=forecast", "signs no client certificates")
	if res.Code != 1 || !strings.Contains(res.Stdout, "refuse") {
		t.Errorf("the forecast: %s", res)
	}
	u.file(key, append(vain, "--accept-risk", "forecast")...)
}

// TestRequestsToACustomSigner: forecast, rights, approval and collection with a
// signer that is not Kubernetes's own, and a small one that signs.
func TestRequestsToACustomSigner(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	signer := "example.com/" + unique("own")
	out := u.kubehsm("csr", "forecast", "--user", "jo", "--signer-name", signer)
	if !strings.Contains(out, "signer") || strings.Contains(out, "refuse") {
		t.Errorf("the forecast:\n%s", out)
	}
	key, name := u.key("one"), unique("jo")
	r := u.file(key, "--user", name, "--group", "anything", "--signer-name", signer)
	if got := u.names("--signer-name", signer); len(got) != 1 {
		t.Errorf("by signer: %q", got)
	}
	// An approver for this signer alone.
	role := unique("approver")
	must.OK(t, u.Cluster.Apply(t.Context(), fmt.Sprintf(approverManifest, role, signer)))
	approver, err := u.Cluster.KubeconfigFor(role)
	must.OK(t, err)
	as := lab.Run{Env: []string{"KUBECONFIG=" + approver}}
	u.ok(u.Run(t.Context(), as, u.Binary, "csr", "approve", r, "--yes", "--message", "known",
		"--accept-risk", "user:"+name))
	plain := u.file(key, "--user", name)
	res := u.ran(u.Run(t.Context(), as, u.Binary, "csr", "approve", plain, "--yes"))
	if res.Code != 1 || !strings.Contains(res.Stderr, "approve on signers named kubernetes.io/kube-apiserver-client") {
		t.Errorf("another signer's: %s", res)
	}
	u.sign(r)
	block, rest := pem.Decode([]byte(u.kubehsm("csr", "wait", r, "--timeout", "1m")))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.Subject.CommonName != name || leaf.Issuer.CommonName != "small signer" {
		t.Errorf("%v: %v by %v", err, leaf.Subject, leaf.Issuer)
	}
	if next, _ := pem.Decode(rest); next == nil {
		t.Error("the intermediate was not kept")
	}
}

const approverManifest = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [get, list, watch]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval], verbs: [update]}
- {apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [%[2]s], verbs: [approve]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
`

// sign is a small signer: it signs one approved request with an authority of its
// own, below a root that is not sent.
func (u *user) sign(name string) {
	u.t.Helper()
	raw, err := base64.StdEncoding.DecodeString(u.admin("get", "csr", name, "-o", "jsonpath={.spec.request}"))
	must.OK(u.t, err)
	block, _ := pem.Decode(raw)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	must.OK(u.t, err)
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(u.t, err)
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "small signer"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must.OK(u.t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: req.Subject, NotBefore: now.Add(-time.Minute),
		NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, req.PublicKey, caKey)
	must.OK(u.t, err)
	var chain []byte
	for _, c := range [][]byte{der, caDER} {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	u.admin("patch", "csr", name, "--subresource=status", "--type=merge", "-p",
		`{"status":{"certificate":"`+base64.StdEncoding.EncodeToString(chain)+`"}}`)
}

// TestRequestsAreTakenBack: by their UID, by who may, and never another's.
func TestRequestsAreTakenBack(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	key := u.key("one")
	r := u.file(key, "--user", unique("jo"))
	res := u.ran(u.Kubehsm(t.Context(), "csr", "cancel", r))
	u.wantFailure(res, 1, "24 hours", "needs delete")
	u.admin("delete", "csr", r)
	if mine := u.names("--mine"); len(mine) != 1 || mine[0] != r+" gone" {
		t.Errorf("mine: %q", mine)
	}
	u.kubehsm("csr", "resume", r) // filed again as it was signed: nobody is asked for a PIN
	if mine := u.names("--mine"); len(mine) != 1 || mine[0] != r+" pending" {
		t.Errorf("mine: %q", mine)
	}
	u.admin("delete", "csr", r)
	u.kubehsm("csr", "cancel", r)
	if mine := u.names("--mine"); len(mine) != 0 {
		t.Errorf("mine: %q", mine)
	}
	other := u.file(key, "--user", unique("jo"))
	admin := lab.Run{Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig(), "KUBEHSM_HOME=" + t.TempDir()}}
	if res := u.ran(u.Run(t.Context(), admin, u.Binary, "csr", "cancel", other)); res.Code != 1 ||
		!strings.Contains(res.Stderr, "not by you") {
		t.Errorf("somebody else's: %s", res)
	}
}
