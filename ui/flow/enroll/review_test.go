package enroll

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// The command that is shown must do what was reviewed, not something close to it.
func TestCommandSaysEverything(t *testing.T) {
	e := &env.Env{}
	plain := enrolling.Options{Name: "prod-hsm", Context: "prod", User: "jane", SignerName: csr.ClientSigner,
		Token: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"}, Generate: hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Label: "prod-hsm"}}
	short := "kubehsm enroll --name prod-hsm --token pkcs11:token=blue --context prod --user jane --algorithm ecdsa-p256"
	if got := NewEnroller(e).commands(plain); len(got) != 1 || got[0] != short {
		t.Errorf("%q", got)
	}
	for words, change := range map[string]func(*enrolling.Options){
		"--reason 'on call'": func(o *enrolling.Options) { o.Reason = "on call" },
		"--label other":      func(o *enrolling.Options) { o.Generate.Label = "other" },
		"--timeout 1m0s":     func(o *enrolling.Options) { o.Timeout = time.Minute },
		"--keep-current":     func(o *enrolling.Options) { o.KeepCurrent = true },
		"--replace":          func(o *enrolling.Options) { o.Replace = true },
		"--restart":          func(o *enrolling.Options) { o.Restart = true },
		"--overwrite":        func(o *enrolling.Options) { o.Generate.Overwrite = true },
	} {
		o := plain
		change(&o)
		if got := NewEnroller(e).commands(o); !strings.HasSuffix(got[0], words) {
			t.Errorf("without %q: %q", words, got[0])
		}
	}
}

// TestRemarks: a review's remarks are its notes, and of the forecast what wants attention.
func TestRemarks(t *testing.T) {
	points := []csr.Point{{ID: "a", Verdict: csr.Warn, Reason: "odd"}, {ID: "b", Verdict: csr.Refuse, Reason: "never", Evidence: "the book"},
		{ID: "c", Verdict: csr.OK, Reason: "fine"}}
	if notes := strings.Join(Review{Notes: []string{"n"}, Forecast: points}.Remarks(), "\n"); notes != "n\nodd\nthis will be refused: never" {
		t.Errorf("remarks: %q", notes)
	}
}
