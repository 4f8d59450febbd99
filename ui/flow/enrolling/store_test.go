package enrolling

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// TestRequestedKeys: requests with every cluster count, and a record that cannot be read is
// an error: its key would count as nobody's.
func TestRequestedKeys(t *testing.T) {
	_, s := store(t)
	if keys, err := s.RequestedKeys(); err != nil || len(keys) != 0 {
		t.Errorf("without records: %q, %v", keys, err)
	}
	elsewhere := "https://10.0.0.9:6443"
	if err := errors.Join(s.Save(begun("prod")), s.SaveRequest(Request{Name: "own", Server: server, KeyHash: "a"}),
		s.SaveRequest(Request{Name: "own", Server: elsewhere, KeyHash: "b"})); err != nil {
		t.Fatal(err)
	}
	keys, err := s.RequestedKeys()
	slices.Sort(keys)
	if err != nil || !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("%q, %v", keys, err)
	}
	if err := os.WriteFile(s.RequestPath(elsewhere, "own"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err = s.RequestedKeys()
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "record of a request") ||
		keys != nil {
		t.Errorf("half a record: %q, %v", keys, err)
	}
}

// TestForgetKey: what was asked for stays on record, and nothing of the key that is destroyed.
func TestForgetKey(t *testing.T) {
	_, s := store(t)
	j := begun("prod")
	j.Options.User, j.Options.Key = "jane", hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}
	j.Request.KeyHash, j.Certificate, j.Done = "00", []byte("x"), Steps()
	card := hsm.URI{Scheme: hsm.SchemePIV, Serial: "8"}
	if err := errors.Join(s.Save(j), s.ForgetKey("prod", card), s.ForgetKey("none", card)); err != nil {
		t.Fatal(err)
	}
	now, err := s.Load("prod")
	if err != nil || now.Options.User != "jane" || now.Options.Token.Serial != "8" || now.Options.Key.Scheme != "" ||
		now.Request.KeyHash != "" || len(now.Certificate) > 0 || now.Finished() {
		t.Errorf("%+v, %v", now, err)
	}
	if err := os.WriteFile(s.Path("prod"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetKey("prod", card); err == nil {
		t.Error("a damaged record is forgotten")
	}
}
