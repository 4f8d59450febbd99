package hsm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// lister is a driver that only lists.
type lister struct {
	hsm.Driver
	listing hsm.Listing
	err     error
}

func (l lister) Scheme() string { return "test" }

func (l lister) List(context.Context) (hsm.Listing, error) { return l.listing, l.err }

func TestDriversListsACardOnce(t *testing.T) {
	const reader = "Yubico YubiKey OTP+FIDO+CCID 00 00"
	module := func(serial, manufacturer, reader string) hsm.TokenInfo {
		return hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Serial: serial, Manufacturer: manufacturer, Reader: reader}
	}
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "12345678", Reader: reader}
	kept := []hsm.TokenInfo{
		module("87654321", "Yubico (www.yubico.com)", "Yubico YubiKey 01 00"), // another key
		module("12345678", "Acme", "Acme slot"),                               // a serial by chance
		module("", "OpenPGP project", reader),                                 // the card's other application
		module("00000000", "piv_II", "Other reader"),
	}
	modules := append([]hsm.TokenInfo{
		module("12345678", "Yubico (www.yubico.com)", reader), module("00000000", "piv_II", reader),
		module("0", "Yubico (www.yubico.com)", reader), // The module's words for a card without a serial.
	}, kept...)
	empty := hsm.Problem{Source: "Reader 2", Err: fmt.Errorf("reader 2: %w", hsm.ErrNoToken)}
	broken := hsm.Problem{Source: "/x.so", Err: hsm.ErrModule}
	list := func(listings ...hsm.Listing) hsm.Listing {
		t.Helper()
		var drivers hsm.Drivers
		for _, l := range listings {
			drivers = append(drivers, lister{listing: l})
		}
		all, err := drivers.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list(hsm.Listing{Tokens: modules, Problems: []hsm.Problem{broken}},
		hsm.Listing{Tokens: []hsm.TokenInfo{card}, Problems: []hsm.Problem{empty}})
	want := append(append([]hsm.TokenInfo{}, kept...), card)
	if len(all.Tokens) != len(want) {
		t.Fatalf("listed %+v, want %+v", all.Tokens, want)
	}
	for i, w := range want {
		if all.Tokens[i] != w {
			t.Errorf("token %d is %+v, want %+v", i, all.Tokens[i], w)
		}
	}
	if len(all.Problems) != 1 || !errors.Is(all.Problems[0].Err, hsm.ErrModule) {
		t.Errorf("problems %v, want the broken module only", all.Problems)
	}
	// A driver that fails whole, as for want of a smart card service, is told.
	failing := hsm.Drivers{lister{listing: hsm.Listing{Tokens: kept}},
		lister{err: fmt.Errorf("no service: %w", hsm.ErrNoToken)}}
	if all, err := failing.List(t.Context()); err != nil || len(all.Problems) != 1 {
		t.Errorf("problems %v, %v, want the failing driver", all.Problems, err)
	}
	// Without the PIV driver the modules' views are all there is.
	if all := list(hsm.Listing{Tokens: modules}); len(all.Tokens) != len(modules) {
		t.Errorf("%d tokens without PIV, want %d", len(all.Tokens), len(modules))
	}
	// Without any token the empty reader is the answer.
	if all := list(hsm.Listing{Problems: []hsm.Problem{empty}}); len(all.Problems) != 1 {
		t.Errorf("problems %v, want the empty reader", all.Problems)
	}
}
