package tui_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"os"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// TestMain has times shown as everywhere else.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

const pin = "648219"

// world is what the program works with: two tokens, and a cluster with requests,
// tickets and roles.
type world struct {
	*screentest.World
	soft, card *hsmtest.FakeToken
	server     *flowtest.Server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{World: screentest.New(t)}
	w.Env.Drivers = hsm.Drivers{w.Tokens, w.Cards}
	w.server = w.Cluster("admin", "dev")
	w.soft = w.Tokens.Add(hsmtest.FakeOptions{Label: "trial", Serial: "8fc1d3a25d90be17", PIN: pin, Seed: "soft"})
	w.soft.Describe(func(i *hsm.TokenInfo) {
		i.Manufacturer, i.Model, i.Firmware, i.Reader = "SoftHSM project", "SoftHSM v2", "", "SoftHSM slot ID 0x5d90be17"
		i.Module = &hsm.Module{Path: "/usr/lib/softhsm/libsofthsm2.so"}
		i.Can.ChangePIN, i.Can.Initialize = true, true
	})
	w.soft.Describe(func(i *hsm.TokenInfo) { i.Can.Policies = false })
	w.card = w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678", PIN: pin, Seed: "card", Can: hsmtest.Administered()})
	w.card.Describe(func(i *hsm.TokenInfo) {
		i.Manufacturer, i.Model, i.Firmware, i.Reader = "Yubico", "YubiKey 5C NFC", "5.4.3", "Yubico YubiKey OTP+FIDO+CCID 00 00"
		i.Can.Attest, i.Can.Lack = true, hsm.Lack{Algorithms: "rsa-3072 rsa-4096 ed25519", Why: "needs firmware 5.7 or newer"}
	})
	day := 24 * time.Hour
	a := w.Generate(w.card, hsm.GenerateOptions{Slot: "9a", PIN: hsm.PINOnce, Touch: hsm.TouchCached})
	w.CertifyFor(w.card, a, tuitest.Now().Add(-10*day), tuitest.Now().Add(80*day), "jane", "dev")
	c := w.Generate(w.card, hsm.GenerateOptions{Slot: "9c", Algorithm: hsm.ECDSAP384, PIN: hsm.PINAlways,
		Touch: hsm.TouchNever})
	w.CertifyFor(w.card, c, tuitest.Now().Add(-300*day), tuitest.Now().Add(5*day), "田中 太郎")
	w.misses(w.card)
	w.bind("jane", "dev")
	w.request("kubehsm-jane-7x2kp", "jane", "jane", 7*time.Minute, "dev")
	w.request("kubehsm-mallory-7x2kp", "system:bootstrap:abcdef", "mallory", 30*time.Second, "system:masters")
	w.bootstrapToken("abcdef", ticket.Terms{User: "jane", Groups: []string{"dev"}}.Description(), 4*time.Minute)
	w.bootstrapToken("xyz123", "for the new rack", 20*time.Hour)
	w.bootstrapToken("old000", "nobody knows", 0)
	return w
}

// ours adds a context of kubehsm's own.
func (w *world) ours() {
	w.T.Helper()
	key := w.Generate(w.soft, hsm.GenerateOptions{Label: "prod"})
	w.Enroll("prod-hsm", key, w.Certify(w.soft, key, "jane", "dev"))
}

// bind binds a user and a group to roles.
func (w *world) bind(user, of string) {
	const group = "rbac.authorization.k8s.io"
	bind := func(collection, kind, name, namespace, role string, subject flowtest.Object) {
		w.server.Put(collection, flowtest.Object{"apiVersion": group + "/v1", "kind": kind,
			"metadata": flowtest.Object{"name": name, "namespace": namespace},
			"roleRef":  flowtest.Object{"apiGroup": group, "kind": "ClusterRole", "name": role}, "subjects": []flowtest.Object{subject}})
	}
	bind("/apis/"+group+"/v1/namespaces/dev/rolebindings", "RoleBinding", user+"-edit", "dev", "edit",
		flowtest.Object{"apiGroup": group, "kind": "User", "name": user})
	bind("/apis/"+group+"/v1/clusterrolebindings", "ClusterRoleBinding", of+"s", "", "view",
		flowtest.Object{"apiGroup": group, "kind": "Group", "name": of})
}

// misses spends a try of the PIN.
func (w *world) misses(tok *hsmtest.FakeToken) {
	w.T.Helper()
	t, err := w.Env.Drivers.Open(w.T.Context(), tok.Info().URI())
	must.OK(w.T, err)
	defer t.Close()
	if err := t.Unlock(w.T.Context(), hsmtest.NewScript(w.T, hsmtest.PIN("000000"), hsmtest.Cancel())); !errors.Is(err,
		hsm.ErrCancelled) {
		w.T.Fatal(err)
	}
}

// request has somebody file a request some time ago. Its key is the same in every run.
func (w *world) request(name, requester, user string, age time.Duration, groups ...string) {
	w.T.Helper()
	seed := sha256.Sum256([]byte(name))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:])
	must.OK(w.T, err)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}, key)
	must.OK(w.T, err)
	lifetime := int32(86400)
	w.server.Put(flowtest.Requests, &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(tuitest.Now().Add(-age))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: csr.ClientSigner,
			Username: requester, Usages: []certificatesv1.KeyUsage{"client auth"}, ExpirationSeconds: &lifetime,
		},
	})
}

// bootstrapToken adds a bootstrap token to the cluster, without an end if left is 0.
func (w *world) bootstrapToken(id, description string, left time.Duration) {
	data := map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"),
		"description":             []byte(description),
		"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true")}
	if left > 0 {
		data["expiration"] = []byte(tuitest.Now().Add(left).Format(time.RFC3339))
	}
	w.server.Put(flowtest.Secrets, flowtest.Object{"apiVersion": "v1", "kind": "Secret",
		"type":     "bootstrap.kubernetes.io/token",
		"metadata": flowtest.Object{"name": "bootstrap-token-" + id, "namespace": "kube-system"}, "data": data})
}

// rig shows the program in a world.
type rig struct {
	*screentest.Rig
	world *world
}

func (w *world) open(width, height int) *rig {
	w.T.Helper()
	return &rig{Rig: w.Start(width, height, tui.Options{Start: tui.ScreenTokens}), world: w}
}

func (w *world) openWizard(width, height int) *rig {
	w.T.Helper()
	return &rig{Rig: w.Start(width, height, tui.Options{Start: tui.ScreenEnroll}), world: w}
}

// opens presses a key and waits for the dialog that it opens.
func (r *rig) opens(name string) {
	r.T.Helper()
	r.Press(name)
	r.Until(name+" opens a dialog", func() bool { return tui.OpenDialogs(r.Model()) > 0 && !tui.Working(r.Model()) })
}

// settle runs the program until nothing is awaited but ticks, what operations send,
// and an agent to offer to.
func (r *rig) settle() {
	r.T.Helper()
	r.Settle(func() int { return 2 + tui.Ticks(r.Model()) })
}

// noColour is the theme under NO_COLOR.
func (r *rig) noColour() { r.Send(tea.ColorProfileMsg{Profile: colorprofile.ASCII}) }

// Where tests begin.

func atTokens(r *rig) { r.T.Helper(); r.Sees("trial", "9c") }

func atToken(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Walk("down", "down", "enter", "~Meant for", "~PUK default, 3 of 3", "~9e")
}

func atContexts(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Walk("2", "~● trial-admin", "~staging")
}

func atOurs(r *rig) { r.T.Helper(); atContexts(r); r.Sees("prod-hsm", "in 90 y") }

func atRequests(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Walk("3", "~2 requests pending", "~mallory", "~jane")
}

func toLook(r *rig) {
	r.T.Helper()
	atRequests(r)
	r.Walk("down", "enter", "~kubehsm-jane-7x2kp", "~Fingerprint")
}

func atActivity(r *rig) { r.T.Helper(); atTokens(r); r.Press("4"); r.Sees("The agent is not running") }

func atDesk(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Walk("5", "~jane, dev", "~for the new rack", "~nobody knows")
}

func atDoctor(r *rig) { r.T.Helper(); atTokens(r); r.Press("6"); r.Sees("look again") }

func toToken(r *rig) { r.T.Helper(); r.Sees("Which token", "tries left") }

// toSummary chooses the first of the two tokens.
func toSummary(r *rig) {
	r.T.Helper()
	toToken(r)
	r.Walk("enter", "~Change: u user")
}

func toPolicy(r *rig) {
	r.T.Helper()
	toSummary(r)
	r.Walk("s", "~A new key", "enter", "~Algorithm")
}

func toSubject(r *rig) {
	r.T.Helper()
	toSummary(r)
	r.Walk("u", "~Who is it for", "~trial-admin-hsm")
}

func toReview(r *rig) {
	r.T.Helper()
	toSubject(r)
	r.Walk(`"jane"`, "enter", "~This is what will be done", "~Who      jane")
}

func toPIN(r *rig) { r.T.Helper(); toReview(r); r.Press("enter"); r.Sees("PIN of trial") }
