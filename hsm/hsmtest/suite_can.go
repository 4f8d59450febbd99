package hsmtest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// testCan: what the token says that it cannot do is refused as such, and what it is
// seen to do it says that it can. Nothing is asked that would change the token.
func testCan(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	info, err := tok.Info(t.Context())
	must.OK(t, err)
	can := info.Can
	crossed, err := json.Marshal(info)
	must.OK(t, err)
	var there hsm.TokenInfo
	if err := json.Unmarshal(crossed, &there); err != nil || there.Can != can {
		t.Errorf("in another process the token can %+v (%v), here %+v", there.Can, err, can)
	}
	for _, a := range slices.Concat(b.Algorithms, b.Slow) {
		if why := can.Lacks(a); why != "" {
			t.Errorf("the fixture makes %s keys, the token says: %s", a, why)
		}
	}
	if !b.ReadOnly && (!can.Generate || !can.Store) || !b.ReadOnly && !b.NoDelete && !can.Delete {
		t.Errorf("the fixture promises more than %+v", can)
	}
	b.wantRefusals(t, tok, slot, can)
	attests, details := hasNot(tok.Attest(t.Context(), slot.URI)), hasNot(tok.Details(t.Context()))
	if !attests && !can.Attest || details == can.Details {
		t.Errorf("attest unsupported: %v, details unsupported: %v, the token says %+v", attests, details, can)
	}
	// Nobody is there to be asked for the old secret, so that nothing changes.
	for name, err := range map[string]error{
		"change the PIN": tok.ChangePIN(t.Context(), hsm.UserPIN, nil), "unblock": tok.Unblock(t.Context(), nil),
	} {
		if errors.Is(err, hsm.ErrUnsupported) == can.ChangePIN || err == nil {
			t.Errorf("%s: %v, the token says %+v", name, err, can)
		}
	}
}

// hasNot tells whether the outcome is that the token cannot do it.
func hasNot[T any](_ T, err error) bool { return errors.Is(err, hsm.ErrUnsupported) }

// wantRefusals asks for what the token says that it cannot do.
func (b *bench) wantRefusals(t *testing.T, tok hsm.Token, slot hsm.Slot, can hsm.Abilities) {
	t.Helper()
	ctx, p := t.Context(), b.typing(t)
	refused := func(able bool, name string, do func() error) {
		t.Helper()
		if able {
			return
		}
		if err := do(); !errors.Is(err, hsm.ErrUnsupported) {
			t.Errorf("%s: error %v, the token says that it cannot", name, err)
		}
	}
	refused(can.Delete, "delete", func() error { return tok.Delete(ctx, slot.URI, p) })
	refused(can.Reset, "reset", func() error { return tok.Reset(ctx, p) })
	refused(can.ManagementKey, "set the management key", func() error {
		_, err := tok.SetManagementKey(ctx, hsm.ManagementKeyOptions{}, p)
		return err
	})
	refused(can.Attest, "attest", func() error { _, err := tok.Attest(ctx, slot.URI); return err })
	if b.ReadOnly {
		refused(can.Generate, "generate", func() error {
			_, err := tok.Generate(ctx, b.options(t, b.Algorithms[0]), p)
			return err
		})
		return
	}
	if !can.Policies {
		o := b.options(t, b.Algorithms[0])
		o.Touch = hsm.TouchAlways
		_, err := tok.Generate(ctx, o, p)
		wantErr(t, err, hsm.ErrUnsupported)
	}
	for _, a := range hsm.Algorithms() {
		if can.Lacks(a) == "" {
			continue
		}
		o := b.options(t, a)
		_, err := tok.Generate(ctx, o, p)
		wantErr(t, err, hsm.ErrUnsupported)
	}
}
