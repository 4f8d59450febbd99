package enrolling

import (
	"errors"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestForgetKey: what was asked for stays on record, and nothing of the key that is destroyed.
func TestForgetKey(t *testing.T) {
	_, s := store(t)
	j := begun("prod")
	j.Options.User, j.Options.Key = "jane", hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}
	j.Request.KeyHash, j.Certificate, j.Done = "00", []byte("x"), Steps()
	card := hsm.URI{Scheme: hsm.SchemePIV, Serial: "8"}
	must.OK(t, errors.Join(s.Save(j), s.ForgetKey("prod", card), s.ForgetKey("none", card)))
	now, err := s.Load("prod")
	if err != nil || now.Options.User != "jane" || now.Options.Token.Serial != "8" || now.Options.Key.Scheme != "" ||
		now.Request.KeyHash != "" || len(now.Certificate) > 0 || now.Finished() {
		t.Errorf("%+v, %v", now, err)
	}
	must.OK(t, os.WriteFile(s.Path("prod"), []byte("{"), 0o600))
	if err := s.ForgetKey("prod", card); err == nil {
		t.Error("a damaged record is forgotten")
	}
}
