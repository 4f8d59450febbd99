package tui

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// did notes what was done to a token, and fails where it is told to.
func (f *fakeBackend) did(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deeds = append(f.deeds, fmt.Sprintf(format, args...))
	err := f.deedErr
	f.deedErr = nil
	return err
}

func (f *fakeBackend) Token(ctx context.Context, u hsm.URI) (token.Details, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.tokens {
		if u.MatchToken(v.Info) {
			d := token.Details{Info: v.Info, Slots: v.Slots}
			if v.Info.Scheme == hsm.SchemePIV {
				d.Details = &hsm.Details{FormFactor: "USB-C keychain", PIN: &hsm.Tries{Left: 2, Total: 3}, PUK: &hsm.Tries{Left: 3, Total: 3, Default: true},
					ManagementKey: hsm.ManagementKeyState{Algorithm: hsm.AES192, Default: true}, Attests: true}
				empty := hsm.Slot{URI: v.Info.URI(), ID: "9e"}
				empty.URI.Slot = "9e"
				d.Slots = append(append([]hsm.Slot(nil), v.Slots...), empty)
			}
			return d, ctx.Err()
		}
	}
	return token.Details{}, hsm.ErrNoToken
}

func (f *fakeBackend) details(err error) (token.Details, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return token.Details{Info: f.tokens[0].Info}, err
}

func (f *fakeBackend) ChangePIN(ctx context.Context, u hsm.URI, kind hsm.PINKind, p hsm.Prompter) (token.Details, error) {
	if err := f.unlock(ctx, ask.With(p, hsm.Purpose{Action: "change the " + string(kind)})); err != nil {
		return f.details(err)
	}
	fresh, err := p.PIN(ctx, hsm.PINPrompt{Kind: kind, Token: f.tokens[0].Info, New: true, Retries: -1})
	if err != nil {
		return f.details(err)
	}
	defer fresh.Zero()
	return f.details(f.did("change %s to %d bytes", kind, fresh.Len()))
}

func (f *fakeBackend) UnblockPIN(_ context.Context, u hsm.URI, _ hsm.Prompter) (token.Details, error) {
	return f.details(f.did("unblock %s", u))
}

func (f *fakeBackend) SetRetries(_ context.Context, u hsm.URI, pin, puk int, _ hsm.Prompter) (token.Details, error) {
	return f.details(f.did("retries %d %d", pin, puk))
}

func (f *fakeBackend) SetManagementKey(_ context.Context, u hsm.URI, o hsm.ManagementKeyOptions, _ hsm.Prompter) (*hsm.Secret, token.Details, error) {
	d, err := f.details(f.did("management key protect=%v %s", o.Protect, o.Algorithm))
	return hsm.NewSecret([]byte{0xab, 0xcd}), d, err
}

func (f *fakeBackend) InitToken(_ context.Context, u hsm.URI, o hsm.InitializeOptions, _ hsm.Prompter) (hsm.TokenInfo, error) {
	return f.tokens[0].Info, f.did("init %s erase=%v", o.Label, o.Erase)
}

func (f *fakeBackend) ResetToken(ctx context.Context, u hsm.URI, confirm func(token.Loss) (hsm.Prompter, error)) (token.Details, error) {
	l, err := f.Loss(ctx, u)
	if err != nil {
		return f.details(err)
	}
	p, err := confirm(l)
	if err != nil {
		return f.details(err)
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Reset it?", Detail: "PIN, PUK and management key become the default ones.", Type: l.Serial()})
	if err == nil && !yes {
		err = hsm.ErrCancelled
	}
	if err != nil {
		return f.details(err)
	}
	return f.details(f.did("reset"))
}

func (f *fakeBackend) Loss(_ context.Context, u hsm.URI) (token.Loss, error) {
	l := token.Loss{Token: f.tokens[1].Info, Enrollments: []string{"prod-hsm"}}
	for _, s := range f.tokens[1].Slots {
		if u.Slot == "" || s.ID == u.Slot {
			l.Slots = append(l.Slots, s)
		}
	}
	return l, nil
}

func (f *fakeBackend) GenerateKey(_ context.Context, u hsm.URI, o hsm.GenerateOptions, _ hsm.Prompter) (hsm.Slot, error) {
	return hsm.Slot{}, f.did("generate %s in %q, overwrite=%v", o.Algorithm, o.Slot, o.Overwrite)
}

func (f *fakeBackend) DeleteKey(_ context.Context, u hsm.URI, l token.Loss, _ hsm.Prompter) error {
	return f.did("delete key %s of %d", u.Slot, len(l.Slots))
}

func (f *fakeBackend) DeleteCertificate(_ context.Context, u hsm.URI, _ token.Loss, _ hsm.Prompter) error {
	return f.did("delete certificate %s", u.Slot)
}

func (f *fakeBackend) MoveKey(_ context.Context, u hsm.URI, slot string, _ hsm.Prompter) (hsm.Slot, []string, error) {
	return hsm.Slot{}, nil, f.did("move %s to %s", u.Slot, slot)
}

func (f *fakeBackend) ImportCertificate(_ context.Context, u hsm.URI, _ string, pem []byte, _ hsm.Prompter) (*csr.Certificate, error) {
	return nil, f.did("import %d bytes", len(pem))
}

func (f *fakeBackend) AttestKey(context.Context, hsm.URI, []*x509.Certificate) (token.Attestation, error) {
	return token.Attestation{Statement: attest.Statement{Slot: "9a", Model: "YubiKey 5C NFC", Serial: "12345678", Firmware: "5.4.3", PIN: hsm.PINOnce,
		Touch: hsm.TouchCached, Root: "Yubico PIV Root CA Serial 263751"}, Checked: true, Err: f.attestErr}, nil
}

var errNotRooted = errors.New("the chain ends in no root that is trusted")

func (f *fakeBackend) CreateRequest(_ context.Context, o enrolling.Options, _ hsm.Prompter) (request.View, error) {
	return request.View{Name: o.User + "-1a2b"}, f.did("request for %s in %v by %s", o.User, o.Groups, o.SignerName)
}
