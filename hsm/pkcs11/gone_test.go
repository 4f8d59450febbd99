//go:build cgo

package pkcs11

import (
	"crypto"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestFolderIsGone: SoftHSM keeps its session, and says that it is logged in, when the files of an
// unlocked token are moved away. It does not sign any more, is not believed that its keys were
// deleted, and Info, which status asks first, says so. Once they are back it is found again, but not
// where its files alone had gone: a worker loads its own library then.
func TestFolderIsGone(t *testing.T) {
	for name, moved := range map[string]string{"all tokens": "", "the token": "*", "the token's files": "*/*"} {
		t.Run(name, func(t *testing.T) {
			d, soft := softHSM(t)
			tok := openToken(t, d)
			slot := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
			s, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, nil)
			must.OK(t, err)
			mustSign(t, s)
			if _, err := tok.Slot(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Object: "gone"}); !errors.Is(err, hsm.ErrNoKey) {
				t.Errorf("a key that is not there: %v", err)
			}
			files, err := filepath.Glob(filepath.Join(soft.Tokens, moved))
			if err != nil || len(files) == 0 {
				t.Fatalf("%q, %v", files, err)
			}
			away := t.TempDir()
			move := func(back bool) {
				for _, file := range files {
					from, to := file, filepath.Join(away, filepath.Base(file))
					if back {
						from, to = to, from
					}
					must.OK(t, os.Rename(from, to))
				}
			}
			move(false)
			if _, err := s.Sign(nil, make([]byte, 32), crypto.SHA256); !errors.Is(err, hsm.ErrRemoved) {
				t.Errorf("a signature: %v", err)
			}
			if tok.Unlocked() {
				t.Error("it is unlocked")
			}
			if _, err := tok.Slot(t.Context(), slot.URI); !errors.Is(err, hsm.ErrRemoved) {
				t.Errorf("its key: %v", err)
			}
			if _, err := tok.Info(t.Context()); !errors.Is(err, hsm.ErrRemoved) {
				t.Errorf("what it says of itself: %v", err)
			}
			if moved == "*/*" {
				return
			}
			move(true)
			d.pause = 0
			s, err = openToken(t, d).Signer(t.Context(), slot.URI, slot.Key.Public, hsmtest.Typing(t, testPIN))
			must.OK(t, err)
			mustSign(t, s)
		})
	}
}
