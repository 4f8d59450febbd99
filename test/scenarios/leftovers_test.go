//go:build linux

package scenarios

import (
	"encoding/json"
	"strings"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestLeftoversOnAToken: half a key, as a killed command leaves it on a real token, is named
// once its PIN is given, and the command that doctor names deletes it alone.
func TestLeftoversOnAToken(t *testing.T) {
	u := newUser(t, lab.Options{})
	u.enroll()
	u.key("halved")
	u.dropPublic(t, "halved")

	type check struct{ ID, State, Found, Why, Fix string }
	look := func(args ...string) (hidden, left []check) {
		var doc struct{ Checks []check }
		res := u.ran(u.Run(t.Context(), lab.Run{PIN: lab.PIN}, u.Binary,
			append([]string{"doctor", "--offline", "-o", "json"}, args...)...))
		if err := json.Unmarshal([]byte(res.Stdout), &doc); err != nil {
			t.Fatalf("%v: %s", err, res)
		}
		for _, c := range doc.Checks {
			switch {
			case strings.HasPrefix(c.ID, "hidden/"):
				hidden = append(hidden, c)
			case strings.HasPrefix(c.ID, "leftover/"):
				left = append(left, c)
			}
		}
		return hidden, left
	}
	hidden, left := look()
	if len(hidden) != 1 || len(left) != 0 || !strings.HasPrefix(hidden[0].Fix, "kubehsm doctor --unlock ") {
		t.Fatalf("without the PIN: %+v, %+v", hidden, left)
	}
	unlock := []string{"--unlock", "pkcs11:token=" + lab.Token, "--pin-fd", "3"}
	hidden, left = look(unlock...)
	if len(hidden) != 0 || len(left) != 1 || left[0].State != "warning" ||
		!strings.Contains(left[0].Found, `"halved": a private key without its public key`) ||
		!strings.Contains(left[0].Why, "no other program") || !strings.HasPrefix(left[0].Fix, "kubehsm key delete --key ") {
		t.Fatalf("with the PIN: %+v, %+v", hidden, left)
	}
	refused := u.ran(u.Run(t.Context(), lab.Run{PIN: lab.PIN}, "/bin/sh", "-c", left[0].Fix+" --pin-fd 3"))
	if refused.Code == 0 || !strings.Contains(refused.Stderr, "serial:") {
		t.Fatalf("without the serial: %s", refused)
	}
	_, serial, _ := strings.Cut(refused.Stderr, "serial:")
	serial = strings.FieldsFunc(serial, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) })[0]
	u.ok(u.Run(t.Context(), lab.Run{PIN: lab.PIN}, "/bin/sh", "-c",
		left[0].Fix+" --pin-fd 3 --accept-risk serial:"+serial))
	if _, left := look(unlock...); len(left) != 0 {
		t.Errorf("it is still there: %+v", left)
	}
	u.unlock()
	u.kubectl("get", "namespaces")
}

// dropPublic destroys the public key object with a label, as if the program had been killed
// before it was made.
func (u *user) dropPublic(t *testing.T, label string) {
	t.Helper()
	t.Setenv("SOFTHSM2_CONF", u.Soft.Conf) // The library in this process reads it.
	ctx := p11.New(u.Soft.Module)
	if ctx == nil {
		t.Fatalf("%s cannot be loaded", u.Soft.Module)
	}
	defer ctx.Destroy()
	must(t, ctx.Initialize())
	defer func() { must(t, ctx.Finalize()) }()
	slots, err := ctx.GetSlotList(true)
	must(t, err)
	session, err := ctx.OpenSession(slots[0], p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	must(t, err)
	must(t, ctx.Login(session, p11.CKU_USER, lab.PIN))
	must(t, ctx.FindObjectsInit(session, []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY),
		p11.NewAttribute(p11.CKA_LABEL, label)}))
	found, _, err := ctx.FindObjects(session, 2)
	must(t, err)
	must(t, ctx.FindObjectsFinal(session))
	if len(found) != 1 {
		t.Fatalf("%d public keys", len(found))
	}
	must(t, ctx.DestroyObject(session, found[0]))
}
