package hsm_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
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
		must.OK(t, err)
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

// TestATokenIsListedOnce: what two libraries say the same of is one token, if it has a
// serial that tells anything, and the first way to it that works is shown.
func TestATokenIsListedOnce(t *testing.T) {
	by := func(path, server, label, serial, reader, manufacturer string) hsm.TokenInfo {
		return hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: label, Serial: serial, Reader: reader,
			Manufacturer: manufacturer, Initialized: true, Module: &hsm.Module{Path: path, Server: server}}
	}
	const reader = "Yubico YubiKey OTP+FIDO+CCID 00 00"
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "12345678", Reader: reader, Initialized: true}
	named := func(path, label, serial, manufacturer string) hsm.TokenInfo {
		return by(path, "", label, serial, "", manufacturer)
	}
	blank, other, far := by("/a.so", "", "", "", "slot 1", "Acme"), by("/b.so", "", "", "", "slot 1", "Acme"),
		by("/b.so", "|ssh", "", "", "slot 1", "Acme")
	blank.Initialized, other.Initialized, far.Initialized = false, false, false
	for name, c := range map[string]struct {
		tokens []hsm.TokenInfo
		want   []int // tokens that are listed
	}{
		"directly and by the proxy": {
			[]hsm.TokenInfo{named("/a.so", "x", "5", "Acme"), named("/proxy.so", "x", "5", "Acme")}, []int{0}},
		"another label": {
			[]hsm.TokenInfo{named("/a.so", "x", "5", "Acme"), named("/b.so", "y", "5", "Acme")}, []int{0, 1}},
		"another maker": {
			[]hsm.TokenInfo{named("/a.so", "x", "5", "Acme"), named("/b.so", "x", "5", "Bcme")}, []int{0, 1}},
		"no serial": {
			[]hsm.TokenInfo{named("/a.so", "x", "", "Acme"), named("/b.so", "x", "", "Acme")}, []int{0, 1}},
		"a serial of zeros": {
			[]hsm.TokenInfo{named("/a.so", "x", "0000", "Acme"), named("/b.so", "x", "0000", "Acme")}, []int{0, 1}},
		"two in one library": {
			[]hsm.TokenInfo{named("/a.so", "x", "5", "Acme"), named("/a.so", "x", "5", "Acme")}, []int{0, 1}},
		"blank":                {[]hsm.TokenInfo{blank, other}, []int{0, 1}},
		"blank, forwarded too": {[]hsm.TokenInfo{blank, far}, []int{0}},
		"a server says the same first": {
			[]hsm.TokenInfo{by("/client.so", "|ssh", "x", "5", "", "Acme"), named("/a.so", "x", "5", "Acme")}, []int{1}},
		"a card three times": {[]hsm.TokenInfo{by("/opensc.so", "", "PIV", "7", reader, "piv_II"),
			by("/client.so", "unix:path=/s", "PIV", "7", reader, "piv_II"), card}, []int{2}},
		"another machine's reader of the same name": {
			[]hsm.TokenInfo{by("/client.so", "unix:path=/s", "PIV", "7", reader, "piv_II"), card}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []hsm.TokenInfo
			for _, i := range c.want {
				want = append(want, c.tokens[i])
			}
			if got := hsm.WithoutTwins(c.tokens); !slices.Equal(got, want) {
				t.Errorf("listed %+v, want %+v", got, want)
			}
		})
	}
}

// viewer is a driver that gives views.
type viewer struct {
	lister
	scheme string
	views  []hsm.View
}

func (v viewer) Scheme() string { return v.scheme }

func (v viewer) Views(_ context.Context, _ time.Duration, skip func(hsm.TokenInfo) bool) ([]hsm.View, []hsm.Problem,
	error) {
	return slices.DeleteFunc(slices.Clone(v.views), func(v hsm.View) bool { return skip(v.Info) }), nil, nil
}

// TestTheWayThatWorks: of two ways to a token the one is shown by which it could be read,
// and a card that arrives by a server too is known by its keys.
func TestTheWayThatWorks(t *testing.T) {
	key := func() hsm.Slot {
		pub, _, err := ed25519.GenerateKey(nil)
		must.OK(t, err)
		return hsm.Slot{Key: &hsm.Key{Public: pub}}
	}
	one, two := key(), key()
	soft := func(path string, err error) hsm.View {
		return hsm.View{Err: err, Info: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "x", Serial: "5", Initialized: true,
			Module: &hsm.Module{Path: path}}}
	}
	far := func(slots ...hsm.Slot) hsm.View {
		return hsm.View{Slots: slots, Info: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "PIV", Serial: "7", Reader: "R",
			Manufacturer: "piv_II", Initialized: true, Module: &hsm.Module{Path: "/client.so", Server: "unix:path=/s"}}}
	}
	card := viewer{scheme: hsm.SchemePIV, views: []hsm.View{{Slots: []hsm.Slot{one, {}},
		Info: hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "12345678", Reader: "R", Initialized: true}}}}
	for name, c := range map[string]struct {
		views []hsm.View
		want  []string // modules
	}{
		"both work":        {[]hsm.View{soft("/a.so", nil), soft("/b.so", nil)}, []string{"/a.so"}},
		"the second works": {[]hsm.View{soft("/a.so", hsm.ErrModule), soft("/b.so", nil)}, []string{"/b.so"}},
		"none works": {
			[]hsm.View{soft("/a.so", hsm.ErrModule), soft("/b.so", hsm.ErrModule)}, []string{"/a.so"}},
		"the card's key":          {[]hsm.View{far(one)}, nil},
		"another key too":         {[]hsm.View{far(one, two)}, []string{"/client.so"}},
		"no key, which may be it": {[]hsm.View{far()}, []string{"/client.so"}},
	} {
		t.Run(name, func(t *testing.T) {
			views, _, err := hsm.Drivers{viewer{scheme: hsm.SchemePKCS11, views: c.views}, card}.Views(t.Context(), 0)
			must.OK(t, err)
			var got []string
			for _, v := range views {
				if v.Info.Module != nil {
					got = append(got, v.Info.Module.Path)
				}
			}
			if !slices.Equal(got, c.want) || len(views) != len(c.want)+1 {
				t.Errorf("%+v, want %v and the card", views, c.want)
			}
		})
	}
}

// TestUsableFirst: a token that is not set up yet comes last.
func TestUsableFirst(t *testing.T) {
	of := func(label string, ready bool) hsm.View {
		return hsm.View{Info: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: label, Serial: label, Initialized: ready}}
	}
	views, _, err := hsm.Drivers{viewer{scheme: hsm.SchemePKCS11,
		views: []hsm.View{of("", false), of("b", true), of("a", true)}}}.Views(t.Context(), 0)
	if err != nil || len(views) != 3 || views[0].Info.Label != "b" || views[2].Info.Initialized {
		t.Errorf("%+v, %v", views, err)
	}
}
