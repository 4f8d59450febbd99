//go:build linux && cgo

package administer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// kind is the configuration of a kind of card.
func kind(t *testing.T, name string) vcard.Config {
	t.Helper()
	for _, p := range vcard.Personalities() {
		if p.Name == name {
			return p.Config
		}
	}
	t.Fatalf("no kind of card %q", name)
	return vcard.Config{}
}

// TestResetToAnotherIdentity: the card's new name is told, and what still has the old one.
func TestResetToAnotherIdentity(t *testing.T) {
	d := newDesk(t, kind(t, "serial 0, new CHUID at reset"))
	d.ok("key", "generate")
	key := d.document("key", "list")["keys"].([]any)[0].(map[string]any)
	store := d.enrolled("prod-hsm", fmt.Sprint(key["fingerprint"]))
	e, err := store.Load("prod-hsm")
	must.OK(t, err)
	if e.Key, err = hsm.ParseURI(fmt.Sprint(key["uri"])); err != nil {
		t.Fatal(err)
	}
	e.Context = "prod"
	must.OK(t, store.Save(e))
	out := d.ok("token", "reset", "--accept-risk", "serial:"+e.Key.Serial)
	now := fmt.Sprint(d.document("token", "info")["uri"])
	for _, want := range []string{"is reset",
		"The card has a new identity now: " + now + "; it was piv:serial=" + e.Key.Serial,
		"prod-hsm", "kubehsm enroll --name prod-hsm --restart --token " + now + " --context prod --user jane"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing: %s", want, out)
		}
	}
	risk := "serial:" + strings.TrimPrefix(now, "piv:serial=")
	renamed, _ := d.document("token", "reset", "--accept-risk", risk)["renamed"].(map[string]any)
	if renamed["was"] != now || renamed["now"] == now || renamed["enrollments"] != nil {
		t.Errorf("%v", renamed)
	}
}
