package question

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		p    hsm.Purpose
		want string
	}{
		{hsm.Purpose{Cluster: "prod"}, "to sign in to prod"},
		{hsm.Purpose{Cluster: "prod", Action: "store the certificate"}, "to store the certificate for prod"},
		{hsm.Purpose{Action: "sign in to prod", Cluster: "prod"}, "to sign in to prod"},
		{hsm.Purpose{Action: `allow “delete namespaces "prod"”`, Cluster: "prod"},
			`to allow “delete namespaces "prod"” for prod`},
		{hsm.Purpose{Command: "kubectl get pods"}, ", for: kubectl get pods"},
		{hsm.Purpose{}, ""},
	} {
		if got := Why(c.p); got != c.want {
			t.Errorf("Why(%+v) = %q, want %q", c.p, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	above, label := PIN(hsm.PINPrompt{
		Kind: hsm.UserPIN, Token: hsm.TokenInfo{Label: "evil\x1b[2J" + strings.Repeat("x", 99)},
		Purpose: hsm.Purpose{Action: "generate a key", Command: strings.Repeat("long ", 99)}, Retries: -1,
	}, Room{})
	if label != "PIN: " {
		t.Errorf("label %q", label)
	}
	if strings.Contains(above[0], "\x1b") || len(above[0]) > 220 {
		t.Errorf("%q", above[0])
	}
	for _, c := range []struct {
		retries int
		again   string
		told    int
		want    string
	}{
		{1, "", 0, "PIN (1 try left): "}, {8, "", 0, "PIN (8 tries left): "}, {0, "", 0, "PIN: "},
		{2, "wrong PIN: 2 tries left", 2, "PIN: "}, // the words are said already
		{1, "wrong PIN: 2 tries left", 2, "PIN (1 try left): "},
		{2, "nothing is left of it", 0, "PIN (2 tries left): "},
	} {
		if _, label := PIN(hsm.PINPrompt{Kind: hsm.UserPIN, Retries: c.retries, Again: c.again,
			Told: c.told}, Room{}); label != c.want {
			t.Errorf("%+v: label %q", c, label)
		}
	}
	known := hsm.TokenInfo{Label: "t", PIN: hsm.PINState{Retries: 1, Default: true, MinLen: 4, MaxLen: 8}}
	for p, want := range map[*hsm.PINPrompt]string{
		{Kind: hsm.UserPIN, Token: known, Retries: 3}: "The default PIN is still in force: everybody knows it.",
		{Kind: hsm.PUK, Token: known, Retries: 3}:     "The default PUK is still in force: everybody knows it.",
		{Kind: hsm.UserPIN, Retries: 1}:               "The last try: a wrong PIN blocks it.",
		{Kind: hsm.UserPIN, Token: known, New: true}:  "4 to 8 characters; letters work too.",
	} {
		if above, _ := PIN(*p, Room{}); len(above) < 2 || above[1] != want {
			t.Errorf("%+v: %q, want %q", p, above, want)
		}
	}
	const notice = "The consent policy of prod was lowered\x1b[2J."
	if above, _ := PIN(hsm.PINPrompt{Kind: hsm.UserPIN, Again: "wrong PIN",
		Purpose: hsm.Purpose{Notice: notice}}, Room{}); len(above) != 3 ||
		above[2] != `The consent policy of prod was lowered\x1b[2J.` {
		t.Errorf("%q", above)
	}
	above, s := Touch(hsm.TouchPrompt{Purpose: hsm.Purpose{Cluster: "prod", Notice: notice}}, Room{})
	if len(above) != 1 || above[0] != `The consent policy of prod was lowered\x1b[2J.` || !strings.HasPrefix(s, "Touch the token") {
		t.Errorf("%q, %q", above, s)
	}
}
