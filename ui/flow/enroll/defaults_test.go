package enroll

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// detailed is a token that tells more of itself.
type detailed struct {
	hsm.Token
	says hsm.Details
	err  error
}

func (d detailed) Details(context.Context) (hsm.Details, error) { return d.says, d.err }

func TestDefaultSecrets(t *testing.T) {
	broken := errors.New("the card was pulled out")
	mine, known := &hsm.Tries{Left: 3}, &hsm.Tries{Left: 3, Default: true}
	key := hsm.ManagementKeyState{Default: true}
	for name, tc := range map[string]struct {
		says  hsm.Details
		err   error
		named string // in the refusal; "" is none
		hint  string
	}{
		"none":             {says: hsm.Details{PIN: mine, PUK: mine}},
		"not told":         {},
		"cannot tell":      {err: hsm.ErrUnsupported},
		"fails to tell":    {err: broken},
		"the PUK, locked":  {says: hsm.Details{PIN: mine, PUK: &hsm.Tries{Default: true}}},
		"PIN":              {says: hsm.Details{PIN: known}, named: "the default PIN", hint: "`kubehsm token pin change --token"},
		"PUK":              {says: hsm.Details{PUK: known}, named: "the default PUK", hint: "`kubehsm token puk change --token"},
		"all":              {says: hsm.Details{PIN: known, PUK: known, ManagementKey: key}, named: "the default PIN, PUK and management key", hint: "change --token"},
		"a management key": {says: hsm.Details{ManagementKey: key}, named: "the default management key", hint: "`kubehsm token management-key set --protect --token"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			e, _ := flowtest.Env(t, "blue")
			r := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
			r.token = detailed{r.token, tc.says, tc.err}
			err := (secrets{r}).mend(ctx)
			switch {
			case errors.Is(tc.err, broken):
				if !errors.Is(err, broken) {
					t.Fatalf("error %v, want %v", err, broken)
				}
				return
			case tc.named == "" && err != nil:
				t.Fatal(err)
			case tc.named != "" && (!errors.Is(err, ErrDefaultSecrets) || !strings.HasSuffix(err.Error(), ": "+tc.named) ||
				!strings.Contains(hinting.Of(err), tc.hint)):
				t.Fatalf("error %v, hint %q", err, hinting.Of(err))
			}
			r.record.Options.AcceptDefaults = true
			if err := (secrets{r}).mend(ctx); err != nil {
				t.Fatalf("although it was accepted: %v", err)
			}
			if notes := strings.Join(r.notes, "\n"); !strings.Contains(notes, tc.named) || (tc.named == "") != (notes == "") {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

// A blocked PIN cannot change itself: the hint names the command that works.
func TestDefaultPINBlocked(t *testing.T) {
	blocked := hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "7", PIN: hsm.PINState{Default: true, Locked: true}}
	all, err := defaultSecrets(t.Context(), detailed{err: hsm.ErrUnsupported}, blocked)
	must.OK(t, err)
	if hint := hinting.Of(defaultsRefusal(all, blocked)); !strings.Contains(hint,
		"`kubehsm token pin unblock --token piv:serial=7`") {
		t.Errorf("hint %q", hint)
	}
}
