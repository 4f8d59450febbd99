//go:build cgo

package hsmtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// softHSMPaths are where Linux distributions and Homebrew put SoftHSM2.
var softHSMPaths = []string{
	"/usr/lib/softhsm/libsofthsm2.so",
	"/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
	"/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
	"/usr/lib64/pkcs11/libsofthsm2.so",
	"/usr/lib64/softhsm/libsofthsm2.so",
	"/usr/lib/pkcs11/libsofthsm2.so",
	"/opt/homebrew/lib/softhsm/libsofthsm2.so",
	"/usr/local/lib/softhsm/libsofthsm2.so",
}

// SoftToken describes a token to be made in a [SoftHSM].
type SoftToken struct {
	Label string // at most 32 bytes; "hsmtest" if empty
	PIN   string // "123456" if empty
	SOPIN string // "12345678" if empty
}

// SoftHSM is a private folder of SoftHSM2 tokens.
type SoftHSM struct {
	// Module is the path of libsofthsm2.so.
	Module string
	// Conf is the value for the environment variable SOFTHSM2_CONF.
	Conf string
	// Tokens is the folder that holds them.
	Tokens string
}

// Env returns what the module needs in the environment.
func (s *SoftHSM) Env() map[string]string { return map[string]string{"SOFTHSM2_CONF": s.Conf} }

// StartSoftHSM makes a private SoftHSM with tokens (one by default values if
// none is given) and points SOFTHSM2_CONF at it for the length of the test, as
// [testing.T.Setenv] does: not for parallel tests. Where SoftHSM2 is not
// installed, the test is skipped, or fails if CI=true.
func StartSoftHSM(t testing.TB, tokens ...SoftToken) *SoftHSM {
	t.Helper()
	need.File(t, softHSMPaths...)
	s, err := NewSoftHSM(t.TempDir(), tokens...)
	must.OK(t, err)
	t.Setenv("SOFTHSM2_CONF", s.Conf)
	return s
}

// NewSoftHSM makes a private SoftHSM in dir, which must exist, with tokens (one
// by default values if none is given). It leaves the environment as it was;
// see [SoftHSM.Env]. No SoftHSM2 may be in use in this process meanwhile.
func NewSoftHSM(dir string, tokens ...SoftToken) (*SoftHSM, error) {
	s, err := EmptySoftHSM(dir)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		tokens = []SoftToken{{}}
	}
	return s, s.Add(tokens...)
}

// EmptySoftHSM is [NewSoftHSM] without a token, or with those that dir has from before.
func EmptySoftHSM(dir string) (*SoftHSM, error) {
	s := &SoftHSM{Conf: filepath.Join(dir, "softhsm2.conf"), Tokens: filepath.Join(dir, "tokens")}
	for _, p := range softHSMPaths {
		if _, err := os.Stat(p); err == nil {
			s.Module = p
			break
		}
	}
	if s.Module == "" {
		return nil, errors.New("softhsm2 is not installed")
	}
	if err := os.MkdirAll(s.Tokens, 0o700); err != nil {
		return nil, err
	}
	conf := "directories.tokendir = " + s.Tokens + "\nobjectstore.backend = file\nlog.level = ERROR\n"
	return s, os.WriteFile(s.Conf, []byte(conf), 0o600)
}

// Add initializes more tokens. SoftHSM2 must not be in use in this process with
// another configuration.
func (s *SoftHSM) Add(tokens ...SoftToken) error {
	for _, tok := range tokens {
		if err := s.add(tok); err != nil {
			return fmt.Errorf("softhsm token %q: %w", tok.Label, err)
		}
	}
	return nil
}

// initializing guards the process-wide environment and module state.
var initializing sync.Mutex

// add makes one token through PKCS#11, so that no PIN is ever an argument.
func (s *SoftHSM) add(tok SoftToken) (err error) {
	initializing.Lock()
	defer initializing.Unlock()
	tok.fill()
	before, err := os.ReadDir(s.Tokens)
	if err != nil {
		return err
	}
	restore, err := setenv("SOFTHSM2_CONF", s.Conf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	ctx := p11.New(s.Module)
	if ctx == nil {
		return fmt.Errorf("%s cannot be loaded", s.Module)
	}
	switch rv := ctx.Initialize(); {
	case rv == nil:
		defer func() { err = errors.Join(err, ctx.Finalize()) }()
	case !errors.Is(rv, p11.Error(p11.CKR_CRYPTOKI_ALREADY_INITIALIZED)):
		return rv
	}
	if err := initToken(ctx, tok); err != nil {
		return err
	}
	after, err := os.ReadDir(s.Tokens)
	if err == nil && len(after) != len(before)+1 {
		err = errors.New("it was made elsewhere: SoftHSM2 is in use in this process with another configuration")
	}
	return err
}

func initToken(ctx *p11.Ctx, tok SoftToken) error {
	slots, err := ctx.GetSlotList(true)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		info, err := ctx.GetTokenInfo(slot)
		if err != nil {
			return err
		}
		if info.Flags&p11.CKF_TOKEN_INITIALIZED != 0 {
			continue
		}
		if err := ctx.InitToken(slot, tok.SOPIN, tok.Label); err != nil {
			return err
		}
		return initPIN(ctx, slot, tok)
	}
	return errors.New("no free slot")
}

func initPIN(ctx *p11.Ctx, slot uint, tok SoftToken) (err error) {
	sh, err := ctx.OpenSession(slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctx.CloseSession(sh)) }()
	if err := ctx.Login(sh, p11.CKU_SO, tok.SOPIN); err != nil {
		return err
	}
	return errors.Join(ctx.InitPIN(sh, tok.PIN), ctx.Logout(sh))
}

func (t *SoftToken) fill() {
	for _, f := range []struct {
		field *string
		value string
	}{{&t.Label, "hsmtest"}, {&t.PIN, "123456"}, {&t.SOPIN, "12345678"}} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
}

// setenv sets a variable and returns what brings the old state back.
func setenv(name, value string) (restore func() error, err error) {
	old, had := os.LookupEnv(name)
	restore = func() error { return os.Unsetenv(name) }
	if had {
		restore = func() error { return os.Setenv(name, old) }
	}
	return restore, os.Setenv(name, value)
}
