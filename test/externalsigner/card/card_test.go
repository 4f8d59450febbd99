//go:build linux && cgo

package card

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/externalsigner/kit"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// programs are what the test runs, built by TestMain.
var programs kit.Programs

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces: the control plane must, too, as they
// have a network of their own.
type inside struct{ *testing.M }

func (i inside) Run() int { return kit.Main(i.M, &programs) }

const pin = "73916402" // found nowhere by chance

// TestCard: every kind of key that the card has signs in; the PIN is asked for
// where the client runs, and the card is left locked.
func TestCard(t *testing.T) {
	vcard.Private(t)
	need.Program(t, "softhsm2-util")
	cluster := controlplane.ForTest(t)
	l, err := lab.New(t.TempDir(), lab.Options{Binary: programs.Kubehsm, Cluster: cluster})
	must.OK(t, err)
	must.OK(t, errors.Join(lab.Rights(t.Context(), cluster), cluster.RunPod(t.Context(), "default", "web")))
	readers := vcard.ForTest(t)
	card := vcard.New(vcard.Config{})
	card.SetPIN(pin)
	readers.Insert(t, 0, card)
	for slot, a := range map[string]hsm.Algorithm{"9a": hsm.ECDSAP256, "9c": hsm.ECDSAP384, "9d": hsm.RSA2048,
		"9e": hsm.Ed25519} {
		t.Run(string(a), func(t *testing.T) {
			uri := certify(t, cluster, slot, a)
			must.OK(t, kit.Configure(l, map[string]string{"pathExec": l.Binary, "uri": uri}))
			for _, c := range []struct {
				args []string
				says string
			}{
				{[]string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"}, string(a)},
				{[]string{"exec", "web", "--", "echo", "heard"}, "heard"},
			} {
				s := term.Run(t, term.Options{Path: programs.Kubectl, Args: c.args, Dir: l.Dir, Env: l.Env(), Columns: 120,
					Rows: 40})
				s.Answer("needs its PIV PIN", pin)
				if code := s.Exit(); code != 0 || !s.Frame().Contains(c.says) {
					t.Errorf("%v: exit code %d:\n%s", c.args, code, s.Output())
				}
				if card.Verified() {
					t.Error("the card was left with the PIN verified")
				}
			}
		})
	}
	if left, _ := card.PINRetries(); left != 3 {
		t.Errorf("%d tries of the PIN are left", left)
	}
}

// certify makes a key in a slot, certified for a developer of the key's name,
// and returns its URI; "" if the card has no such keys.
func certify(t *testing.T, cluster *controlplane.Cluster, slot string, a hsm.Algorithm) string {
	t.Helper()
	driver := piv.New(piv.Options{})
	defer func() {
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	}()
	token, err := driver.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV})
	must.OK(t, err)
	defer func() {
		if err := token.Close(); err != nil {
			t.Error(err)
		}
	}()
	typing := hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.PIVPIN: pin,
		hsm.ManagementKey: hex.EncodeToString(vcard.DefaultManagementKey())})
	made, err := token.Generate(t.Context(),
		hsm.GenerateOptions{Slot: slot, Algorithm: a, PIN: hsm.PINAlways, Touch: hsm.TouchNever}, typing)
	must.OK(t, err)
	der, err := cluster.SignClient(made.Key.Public, string(a), []string{lab.DevelopersGroup}, time.Now().Add(-time.Minute),
		time.Now().Add(time.Hour))
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	must.OK(t, token.StoreCertificate(t.Context(), made.URI, cert, typing))
	return made.URI.String()
}
