//go:build cgo

package pkcs11

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	flags "flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/must"
)

var (
	lies    = flags.Int("lies", 100, "how many libraries that lie TestLies tries")
	lieSeed = flags.Uint64("lie-seed", 0, "the seed of the first; 0 is one by the clock")
)

// liesVar makes the test binary a program that uses a library that lies: its value is
// "FIRST COUNT LIBRARY".
const liesVar = "KUBEHSM_TEST_LIES"

// Bounds of one use of a library that lies, and of the memory of all of them: 160 MiB are
// common, and 550 with the race detector.
const (
	lieTimeout = 30 * time.Second
	lieMemory  = 1 << 20 // KiB
)

// TestLies: whatever a library says, nothing crashes, hangs or takes memory without
// bound; no try at the PIN is spent without a PIN that was typed for it; and no signature
// is returned that is not the right key's.
func TestLies(t *testing.T) {
	d, soft := softHSM(t)
	generateKey(t, openToken(t, d), hsm.GenerateOptions{Label: "mine"})
	generateKey(t, openToken(t, d), hsm.GenerateOptions{Label: "other"})
	first := *lieSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano()) >> 10
	}
	t.Logf("-lie-seed %d", first)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), liesVar+"="+fmt.Sprint(first, *lies, badlib.Liar(t)), badlib.Real+"="+soft.Module,
		badlib.LieLog+"="+filepath.Join(t.TempDir(), "logins"))
	for k, v := range soft.Env() {
		c.Env = append(c.Env, k+"="+v)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	must.OK(t, err)
	last := "none"
	hung := time.AfterFunc(lieTimeout, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); hung.Reset(lieTimeout) {
		if last = lines.Text(); !strings.HasPrefix(last, "seed ") {
			t.Error(last)
		}
	}
	if err := c.Wait(); err != nil {
		said := stderr.String()
		t.Fatalf("after %s: %v\n%s", last, err, said[:min(len(said), 8000)])
	}
	t.Logf("the last was %s", last)
}

// useLiars is the program.
func useLiars(task string) error {
	var first uint64
	var count int
	var library string
	if _, err := fmt.Sscan(task, &first, &count, &library); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lies")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys, err := honestKeys(dir)
	if err != nil {
		return err
	}
	signed := 0
	for seed := first; seed < first+uint64(count); seed++ {
		fmt.Printf("seed %d, %d signatures\n", seed, signed)
		if err := os.Setenv(badlib.LieSeed, strconv.FormatUint(seed, 10)); err != nil {
			return err
		}
		l := liar{log: os.Getenv(badlib.LieLog), keys: keys}
		if err := os.WriteFile(l.log, nil, 0o600); err != nil {
			return err
		}
		l.use(New(Options{Modules: []Module{{Path: library}}, LockDir: filepath.Join(dir, "lock")}))
		signed += l.signed
		for _, fault := range l.faults {
			fmt.Printf("with seed %d: %s\n", seed, fault)
		}
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil { // Linux has it (proc_pid_status(5))
		_, most, _ := strings.Cut(string(status), "VmHWM:")
		var used int
		if _, err := fmt.Sscan(most, &used); err != nil || used > lieMemory {
			return fmt.Errorf("%d KiB of memory were used", used)
		}
	}
	if signed == 0 && count >= 100 {
		return fmt.Errorf("no library let anybody sign")
	}
	return nil
}

// honestKeys reads what the token really has, by label.
func honestKeys(dir string) (map[string]crypto.PublicKey, error) {
	d := New(Options{Modules: []Module{{Path: os.Getenv(badlib.Real)}}, LockDir: filepath.Join(dir, "lock")})
	l, err := d.List(context.Background())
	if err != nil {
		return nil, err
	}
	keys := map[string]crypto.PublicKey{}
	for _, info := range l.Tokens {
		if info.Label != testLabel {
			continue
		}
		token, err := d.Open(context.Background(), info.URI())
		if err != nil {
			return nil, err
		}
		slots, err := token.Slots(context.Background(), nil)
		if err != nil {
			return nil, err
		}
		for _, s := range slots {
			if s.Key != nil {
				keys[s.URI.Object] = s.Key.Public
			}
		}
	}
	return keys, d.Close()
}

// liar is the use of one library that lies.
type liar struct {
	hsm.Prompter
	log    string
	keys   map[string]crypto.PublicKey
	typed  int // PINs
	signed int
	faults []string
}

// PIN implements [hsm.Prompter].
func (l *liar) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	if l.typed++; l.typed > 3 { // a person gives up after three tries
		return nil, context.Canceled
	}
	return hsm.NewSecret([]byte(testPIN)), nil
}

// Touch implements [hsm.Prompter].
func (l *liar) Touch(context.Context, hsm.TouchPrompt) func() { return func() {} }

// Confirm implements [hsm.Prompter].
func (l *liar) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) { return false, nil }

func (l *liar) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// use does what a person would. Errors are what a library that lies is due.
func (l *liar) use(d *Driver) {
	ctx := context.Background()
	defer func() { _ = d.Close() }() // A lying library may say that this failed.
	listing, _ := d.List(ctx)
	for _, info := range listing.Tokens {
		if s := info.URI().String(); strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			l.fault("the token is called %q", s)
		}
		token, err := d.Open(ctx, info.URI())
		if err != nil {
			continue
		}
		_, _ = token.Slots(ctx, nil)
		for label, key := range l.keys {
			l.sign(ctx, token, info, label, key)
		}
		_, _ = token.Slots(ctx, nil)
		_ = token.Lock()
		_ = token.Close()
	}
	logins, err := os.ReadFile(l.log)
	if err != nil {
		l.fault("%v", err)
	}
	if spent := bytes.Count(logins, []byte("u")); spent > l.typed {
		l.fault("%d tries at the PIN were spent, %d PINs typed", spent, l.typed)
	}
}

// sign asks for a signature of the key that was enrolled under the label.
func (l *liar) sign(ctx context.Context, token hsm.Token, info hsm.TokenInfo, label string, key crypto.PublicKey) {
	u := info.URI()
	u.Object = label
	s, err := token.Signer(ctx, u, key, l)
	if err != nil {
		return
	}
	if !hsm.SameKey(s.Public(), key) {
		l.fault("the signer of %s is another key's", label)
	}
	sum := sha256.Sum256([]byte(label))
	signature, err := s.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return
	}
	l.signed++
	if pub, ok := key.(*ecdsa.PublicKey); !ok || !ecdsa.VerifyASN1(pub, sum[:], signature) {
		l.fault("a signature for %s is not its key's", label)
	}
}
