package hsmtest

import (
	"context"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func testList(t *testing.T, b *bench) {
	tries := b.tries()
	l, err := b.Driver.List(t.Context())
	must.OK(t, err)
	var found []hsm.TokenInfo
	for _, info := range l.Tokens {
		if info.Scheme != b.Driver.Scheme() {
			t.Errorf("token %q has scheme %q, the driver %q", info.Name(), info.Scheme, b.Driver.Scheme())
		}
		if b.Token.MatchToken(info) {
			found = append(found, info)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d tokens match %s, want 1 of %+v (problems %v)", len(found), b.Token, l.Tokens, l.Problems)
	}
	if !found[0].Initialized || found[0].Serial == "" || found[0].Name() == "" {
		t.Errorf("incomplete: %+v", found[0])
	}
	if s := found[0].PIN; s.Locked || s.NotSet || s.Final || s.Retries == 0 {
		t.Errorf("PIN state of a new token: %+v", s)
	}
	own := found[0].URI()
	if _, err := hsm.ParseURI(own.String()); err != nil {
		t.Errorf("the token's own URI %s: %v", own, err)
	}
	tok, err := b.Driver.Open(t.Context(), own)
	if err != nil {
		t.Fatalf("open by its own URI %s: %v", own, err)
	}
	defer tok.Close()
	info, err := tok.Info(t.Context())
	if err != nil || info.Serial != found[0].Serial || info.Label != found[0].Label {
		t.Errorf("opened %+v, %v; listed %+v", info, err, found[0])
	}
	b.wantTries(t, tries)
}

func testOpen(t *testing.T, b *bench) {
	tok := b.open(t)
	info, err := tok.Info(t.Context())
	must.OK(t, err)
	if !b.Token.MatchToken(info) {
		t.Errorf("opened %s by %s", info.URI(), b.Token)
	}
	if tok.Unlocked() {
		t.Error("a token is unlocked before anybody typed a PIN")
	}
	bySerial := hsm.URI{Scheme: b.Token.Scheme, Serial: info.Serial}
	if strings.Trim(info.Serial, "0") == "" {
		bySerial.Token = info.Label
	}
	again, err := b.Driver.Open(t.Context(), bySerial)
	if err != nil {
		t.Fatalf("open %s a second time, by serial: %v", bySerial, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	for _, none := range []hsm.URI{
		{Scheme: b.Token.Scheme, Serial: "no-such-serial"},
		{Scheme: b.Token.Scheme, Serial: "no-such-serial", Token: info.Label},
	} {
		if _, err := b.Driver.Open(t.Context(), none); err == nil {
			t.Errorf("%s opened something", none)
		} else {
			wantErr(t, err, hsm.ErrNoToken)
		}
	}
	if _, err := tok.Info(t.Context()); err != nil {
		t.Errorf("closing one handle broke the other: %v", err)
	}
}

func testOpenAmongTwo(t *testing.T, b *bench) {
	second := b.AddToken(t)
	_, err := b.Driver.Open(t.Context(), hsm.URI{Scheme: b.Token.Scheme})
	wantErr(t, err, hsm.ErrSeveralTokens)
	for _, u := range []hsm.URI{b.Token, second} {
		tok, err := b.Driver.Open(t.Context(), u)
		if err != nil {
			t.Fatalf("open %s: %v", u, err)
		}
		info, err := tok.Info(t.Context())
		if err != nil || !u.MatchToken(info) {
			t.Errorf("%s opened %s, %v", u, info.URI(), err)
		}
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testEmptyToken(t *testing.T, b *bench) {
	tok := b.open(t)
	if s := holding(slots(t, tok, nil)); len(s) != 0 {
		t.Fatalf("a new token holds %d keys", len(s))
	}
	u := b.Token
	if b.Slots != nil {
		u.Slot = b.Slots[0]
	} else {
		u.Object = "nothing"
	}
	_, err := tok.Signer(t.Context(), u, nil, b.typing(t))
	wantErr(t, err, hsm.ErrNoKey)
}

func testCancelledContext(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	lock(t, tok)
	ctx := cancelled(t)
	if err := tok.Unlock(ctx, Typing(t, b.PIN)); err == nil || tok.Unlocked() {
		t.Errorf("Unlock with a cancelled context: %v, unlocked %v", err, tok.Unlocked())
	} else {
		wantErr(t, err, context.Canceled)
	}
	if _, err := tok.Generate(ctx, b.options(t, b.Algorithms[0]), b.typing(t)); err == nil {
		t.Error("Generate with a cancelled context made a key")
	} else {
		wantErr(t, err, context.Canceled)
	}
	if n := len(holding(slots(t, tok, b.typing(t)))); n != 1 {
		t.Errorf("%d keys, want the 1 there was", n)
	}
	find(t, slots(t, tok, nil), slot.Key.Public)
}

func testUnplug(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	sign := b.signer(t, tok, slot, b.typing(t))
	signOne(t, sign)
	b.Unplug()
	_, err := trySign(sign)
	wantErr(t, err, hsm.ErrRemoved)
	if tok.Unlocked() {
		t.Error("an absent token is unlocked")
	}
	_, err = b.Driver.Open(t.Context(), b.Token)
	wantErr(t, err, hsm.ErrNoToken)
	if l, err := b.Driver.List(t.Context()); err != nil {
		t.Error(err)
	} else {
		for _, info := range l.Tokens {
			if b.Token.MatchToken(info) {
				t.Error("an absent token is listed")
			}
		}
	}
	b.Plug()
	if err := tok.Unlock(t.Context(), NewScript(t, PIN(b.PIN))); err != nil {
		t.Fatalf("unlock after it came back: %v", err)
	}
	signOne(t, sign)
}
