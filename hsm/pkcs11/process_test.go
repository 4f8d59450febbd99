//go:build cgo

package pkcs11

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// The test binary runs itself as a program that makes one signature: the
// variable holds the key's URI, lockVar the lock folder; the PIN comes on stdin.
const (
	signVar = "KUBEHSM_TEST_SIGN"
	lockVar = "KUBEHSM_TEST_LOCK"
)

func TestMain(m *testing.M) {
	if uri := os.Getenv(signVar); uri != "" {
		if err := signOnce(uri, os.Getenv(lockVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if task := os.Getenv(liesVar); task != "" {
		if err := useLiars(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stdin answers with the PIN that came on it.
type stdin struct{ hsm.Prompter }

func (stdin) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	b, err := io.ReadAll(os.Stdin)
	return hsm.NewSecret(b), err
}

func signOnce(uri, lockDir string) (err error) {
	u, err := hsm.ParseURI(uri)
	if err != nil {
		return err
	}
	d := New(Options{LockDir: lockDir})
	defer func() {
		if cerr := d.Close(); err == nil {
			err = cerr
		}
	}()
	tok, err := d.Open(context.Background(), u)
	if err != nil {
		return err
	}
	s, err := tok.Signer(context.Background(), u, nil, stdin{})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(uri))
	_, err = s.Sign(rand.Reader, sum[:], crypto.SHA256)
	return err
}

// TestProcesses: 64 cold processes, eight at a time, sign with one SoftHSM
// while a long-lived one unlocks, generates and locks. None may fail.
func TestProcesses(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{Label: "shared"})
	if _, err := os.Stat(d.options.LockDir); err != nil {
		t.Fatal(err)
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range work {
				if out, err := child(t, slot.URI, d.options.LockDir); err != nil {
					t.Errorf("process %d: %v: %s", n, err, out)
				}
			}
		})
	}
	done := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if err := churn(t, tok, n); err != nil {
				t.Errorf("long-lived process, round %d: %v", n, err)
				return
			}
		}
	})
	for n := range 64 {
		work <- n
	}
	close(work)
	wg.Wait()
	close(done)
	busy.Wait()
	if files, err := filepath.Glob(filepath.Join(d.options.LockDir, "*")); err != nil || len(files) != 1 {
		t.Errorf("lock files %v, %v; want one for the module", files, err)
	}
}

func child(t *testing.T, u hsm.URI, lockDir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), signVar+"="+u.String(), lockVar+"="+lockDir)
	cmd.Stdin = bytes.NewReader([]byte(testPIN))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// churn does all that an agent may do meanwhile.
func churn(t *testing.T, tok hsm.Token, n int) error {
	p := hsmtest.Typing(t, testPIN)
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Label: fmt.Sprint("key ", n)}, p)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	s, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, p)
	if err != nil {
		return fmt.Errorf("signer: %w", err)
	}
	sum := sha256.Sum256(nil)
	if _, err := s.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if err := tok.Delete(t.Context(), slot.URI, p); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return tok.Lock()
}
