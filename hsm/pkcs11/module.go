//go:build cgo

package pkcs11

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// module is a loaded and initialized PKCS#11 library.
type module struct {
	Module
	ctx  *p11.Ctx
	lib  *library
	lock fileLock
	// finishing is that of the options.
	finishing hsm.Finishing
	owned     atomic.Bool // C_Initialize was called here, not by another part of the program
	about     hsm.Module
	// calls is held for reading by calls that belong to no device, for writing
	// while the library is set up anew.
	calls sync.RWMutex
	// since is when the library was set up; guarded by the driver.
	since    time.Time
	fresh    atomic.Bool // initialized, slots not listed yet
	reserved []byte      // Reserved with a terminating NUL
	// gate is shared by all tokens of a library that cannot do threads; nil for
	// the others.
	gate gate
}

// gate admits one at a time.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// try enters a gate that is free.
func (g gate) try() bool {
	if g == nil {
		return true
	}
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter waits for its turn. A nil gate is open.
func (g gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil || g == nil {
		return err
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() {
	if g != nil {
		<-g
	}
}

// load loads and initializes m.
func load(ctx context.Context, m Module, o Options) (*module, error) {
	for name, value := range m.Env {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("environment of %s: %w", m.Path, err)
		}
	}
	lock, err := newLock(o.LockDir, m.real)
	if err != nil {
		return nil, err
	}
	lib, c, err := m.open()
	if err != nil {
		return nil, err
	}
	loaded := &module{Module: m, ctx: c, lib: lib, lock: lock, finishing: o.Finishing}
	if m.Reserved != "" {
		loaded.reserved = append([]byte(m.Reserved), 0)
	}
	loaded.since = time.Now()
	if err := loaded.initialize(ctx); err != nil {
		return nil, err
	}
	return loaded, loaded.describe()
}

// open loads the library, which for a remote module is p11-kit's client.
func (m Module) open() (lib *library, c *p11.Ctx, err error) {
	path, what := m.Path, "install the token's PKCS#11 library"
	if m.remote != "" {
		path, what = m.client, "install p11-kit's client module (Debian's package p11-kit-modules), which reaches it"
	}
	if _, err := os.Stat(path); err != nil { // the loader's messages differ between systems
		err = fmt.Errorf("%w: %s does not exist", hsm.ErrModule, path)
		if m.remote != "" {
			err = fmt.Errorf("%w; %s is remote", err, m.Path)
		}
		return nil, nil, hint.With(err, what)
	}
	if m.remote != "" { // the library reads it when it is opened
		old := os.Getenv(p11kit.ServerAddress)
		if err := os.Setenv(p11kit.ServerAddress, m.remote); err != nil {
			return nil, nil, fmt.Errorf("environment of %s: %w", m.Path, err)
		}
		defer func() { err = errors.Join(err, os.Setenv(p11kit.ServerAddress, old)) }()
	}
	if lib, c, err = openLibrary(path); err != nil {
		err = fmt.Errorf("%w: %s: %w", hsm.ErrModule, m.Path, err)
	}
	return lib, c, err
}

// address is that of the p11-kit server which the module reaches, "" of others.
func (m Module) address() string {
	if m.remote == "" && p11kit.IsClient(m.real) {
		return p11kit.Standard().Server()
	}
	return m.remote
}

// initialize calls C_Initialize, for threads if the library can.
func (m *module) initialize(ctx context.Context) error {
	var reserved unsafe.Pointer
	if m.reserved != nil {
		reserved = unsafe.Pointer(&m.reserved[0])
	}
	err := m.lock.shared(ctx, func() error {
		err := m.ctx.Initialize(p11.InitializeWithFlags(p11.CKF_OS_LOCKING_OK), p11.InitializeWithReserved(reserved))
		if is(err, p11.CKR_CANT_LOCK, p11.CKR_NEED_TO_CREATE_THREADS) {
			if m.gate == nil {
				m.gate = newGate()
			}
			err = m.ctx.Initialize(p11.InitializeWithFlags(0), p11.InitializeWithReserved(reserved))
		}
		return err
	})
	switch {
	case err == nil:
		m.owned.Store(true)
		m.fresh.Store(true)
		return nil
	case is(err, p11.CKR_CRYPTOKI_ALREADY_INITIALIZED): // by another part of the program
		return nil
	}
	return fault("initialize "+m.Path, err)
}

func (m *module) describe() error {
	info, err := m.ctx.GetInfo()
	if err != nil {
		return fault("describe "+m.Path, err)
	}
	m.about = hsm.Module{
		Name: m.Name, Path: m.Path, Server: m.address(),
		Description: trim(info.LibraryDescription), Manufacturer: trim(info.ManufacturerID),
		Version: fmt.Sprintf("%d.%d", info.LibraryVersion.Major, info.LibraryVersion.Minor),
	}
	return nil
}

// close finalises the library if it is ours.
func (m *module) close() error {
	if !m.owned.Swap(false) {
		return nil
	}
	if err := m.ctx.Finalize(); !is(err, p11.CKR_CRYPTOKI_NOT_INITIALIZED) {
		return fault("finalise "+m.Path, err)
	}
	return nil
}

// tokens lists the tokens present. One that cannot be described becomes a
// problem.
func (m *module) tokens(ctx context.Context) ([]hsm.TokenInfo, []hsm.Problem, error) {
	m.calls.RLock()
	defer m.calls.RUnlock()
	if err := m.gate.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer m.gate.leave()
	return m.scan(ctx)
}

// scan is [module.tokens] for those who hold the gate.
func (m *module) scan(ctx context.Context) (all []hsm.TokenInfo, problems []hsm.Problem, err error) {
	err = m.refresh(ctx)
	if is(err, p11.CKR_CRYPTOKI_NOT_INITIALIZED) { // another part of the program finalised it
		if err := m.initialize(ctx); err != nil {
			return nil, nil, err
		}
		err = m.refresh(ctx)
	}
	if err != nil && !is(err, p11.CKR_DEVICE_ERROR) {
		return nil, nil, fault("list the tokens of "+m.Path, err)
	}
	err = m.lock.shared(ctx, func() error {
		slots, err := m.lib.slots(m.ctx, true)
		if err != nil {
			return err
		}
		if len(slots) == 0 && m.about.Server != "" {
			if err := p11kit.Unreachable(m.about.Server); err != nil {
				return serverLost{err}
			}
		}
		for _, slot := range slots {
			info, err := m.token(slot)
			switch {
			case err == nil && info.Model == p11kit.TrustModel: // certificates only
			case err == nil:
				all = append(all, info)
			case !is(err, p11.CKR_TOKEN_NOT_PRESENT, p11.CKR_DEVICE_REMOVED, p11.CKR_SLOT_ID_INVALID):
				problems = append(problems, hsm.Problem{Source: m.Path + ": " + info.Reader, Err: fault("read the token", err)})
			}
		}
		return nil
	})
	if is(err, p11.CKR_DEVICE_ERROR) && m.about.Server != "" { // p11-kit's client, when the server has ended
		return nil, nil, serverLost{cmp.Or(p11kit.Unreachable(m.about.Server), hint.With(
			fmt.Errorf("%w: the connection to the p11-kit server at %s was lost (%w)", hsm.ErrModule, m.about.Server, err),
			"try again; if the error persists, check that the server runs and that its socket is still forwarded"))}
	}
	if is(err, p11.CKR_DEVICE_ERROR) { // ykcs11's word for no pcscd
		return nil, nil, hint.With(fmt.Errorf("%w: %s reaches no device (%w)", hsm.ErrNoToken, m.Path, err),
			"if its tokens are smart cards, see that the smart card service (pcscd) runs")
	}
	return all, problems, fault("list the tokens of "+m.Path, err)
}

// refresh has the library look for new readers and tokens, which it does only
// when asked for all slots (PKCS#11 v2.40, C_GetSlotList). One that was just set
// up has looked.
func (m *module) refresh(ctx context.Context) error {
	if m.fresh.Swap(false) {
		return nil
	}
	return m.lock.shared(ctx, func() error {
		_, err := m.lib.slots(m.ctx, false)
		return err
	})
}

// asSO runs f logged in as security officer.
func (m *module) asSO(sh p11.SessionHandle, so *hsm.Secret, f func() error) error {
	if err := m.lib.login(m.ctx, sh, p11.CKU_SO, so); err != nil {
		return err
	}
	err := f()
	if out := m.ctx.Logout(sh); !lost(out) {
		err = errors.Join(err, out)
	}
	return err
}

// readWrite runs f with a read/write session of its own.
func (m *module) readWrite(slot uint, f func(sh p11.SessionHandle) error) (err error) {
	sh, err := m.ctx.OpenSession(slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() {
		if closing := m.ctx.CloseSession(sh); !lost(closing) {
			err = errors.Join(err, closing)
		}
	}()
	return f(sh)
}

// change runs f, which changes a token, alone among all processes. A PIN pad's user may
// take a minute: other processes are not kept waiting for that.
func (m *module) change(ctx context.Context, pad bool, f func() error) error {
	defer m.finishing.Begin()()
	if pad {
		return f()
	}
	return m.lock.exclusive(ctx, f)
}

// token describes the token in slot; the lock is held.
func (m *module) token(slot uint) (hsm.TokenInfo, error) {
	about := m.about
	info := hsm.TokenInfo{Scheme: hsm.SchemePKCS11, SlotID: uint64(slot), Module: &about}
	s, err := m.ctx.GetSlotInfo(slot)
	if err != nil {
		return info, err
	}
	info.Reader = trim(s.SlotDescription)
	t, err := m.ctx.GetTokenInfo(slot)
	if err != nil {
		return info, err
	}
	info.Label, info.Manufacturer = trim(t.Label), trim(t.ManufacturerID)
	info.Model, info.Serial = trim(t.Model), trim(t.SerialNumber)
	info.Firmware = fmt.Sprintf("%d.%d", t.FirmwareVersion.Major, t.FirmwareVersion.Minor)
	info.Initialized = t.Flags&p11.CKF_TOKEN_INITIALIZED != 0
	info.ReadOnly = t.Flags&p11.CKF_WRITE_PROTECTED != 0
	info.PIN = pinState(t)
	writes := !info.ReadOnly
	info.Can = hsm.Abilities{Generate: writes, Store: writes, Delete: writes, ChangePIN: true,
		Initialize: true}
	return info, nil
}

// pinState reads CK_TOKEN_INFO's flags (PKCS#11 v2.40 section 3.2).
func pinState(t p11.TokenInfo) hsm.PINState {
	has := func(flag uint) bool { return t.Flags&flag != 0 }
	s := hsm.PINState{
		Retries: -1,
		Low:     has(p11.CKF_USER_PIN_COUNT_LOW), Final: has(p11.CKF_USER_PIN_FINAL_TRY),
		Locked: has(p11.CKF_USER_PIN_LOCKED),
		NotSet: !has(p11.CKF_USER_PIN_INITIALIZED), NotNeeded: !has(p11.CKF_LOGIN_REQUIRED),
		Default: has(p11.CKF_USER_PIN_TO_BE_CHANGED), PINPad: has(p11.CKF_PROTECTED_AUTHENTICATION_PATH),
		MinLen: length(t.MinPinLen), MaxLen: length(t.MaxPinLen),
	}
	switch {
	case s.Locked:
		s.Retries = 0
	case s.Final:
		s.Retries = 1
	}
	return s
}

// length is a PIN length, 0 for what no library can mean
// (CK_UNAVAILABLE_INFORMATION).
func length(n uint) int {
	if n > 4096 {
		return 0
	}
	return int(n)
}

// trim removes the padding of fixed-size fields: blanks, in some libraries zeros.
func trim(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return strings.TrimRight(s, " ")
}

var errClosed = errors.New("the driver is closed")
