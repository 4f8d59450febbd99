//go:build cgo

package pkcs11

import (
	"crypto"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// TestFolderIsGone: SoftHSM keeps its session, and says that it is logged in, when the files of an
// unlocked token are moved away. It does not sign any more, and Info, which status asks first,
// says so. (This process's library stays so when they are back: a worker loads its own.)
func TestFolderIsGone(t *testing.T) {
	for name, moved := range map[string]string{"all tokens": "", "the token": "*", "the token's files": "*/*"} {
		t.Run(name, func(t *testing.T) {
			d, soft := softHSM(t)
			tok := openToken(t, d)
			defer tok.Close()
			slot := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
			sign := func() error {
				signer, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, hsmtest.NewScript(t))
				if err == nil {
					digest := sha256.Sum256([]byte("a handshake"))
					_, err = signer.Sign(nil, digest[:], crypto.SHA256)
				}
				return err
			}
			if err := sign(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(soft.Tokens, moved))
			if err != nil || len(files) == 0 {
				t.Fatalf("%q, %v", files, err)
			}
			away := t.TempDir()
			for _, from := range files {
				if err := os.Rename(from, filepath.Join(away, filepath.Base(from))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tok.Info(t.Context()); !errors.Is(err, hsm.ErrRemoved) {
				t.Errorf("what it says of itself: %v", err)
			}
			if err := sign(); err == nil {
				t.Error("it signs")
			}
		})
	}
}
