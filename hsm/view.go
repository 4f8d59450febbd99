package hsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// View is a token with what is on it, read without a PIN.
type View struct {
	Info  TokenInfo
	Slots []Slot
	// Err says why the slots could not be read.
	Err error
}

// Viewer is a [Driver] that reads tokens and what is on them, each of its
// libraries apart from the others.
type Viewer interface {
	// Views reads the tokens that skip does not tell it to leave out. What does not
	// answer within patience becomes a Problem with [ErrPending], or is as it was
	// found the last time, and goes on being read; a patience of 0 has no end but
	// the driver's own limit.
	Views(ctx context.Context, patience time.Duration, skip func(TokenInfo) bool) ([]View, []Problem, error)
}

// Source is code that a driver finds tokens by: one PKCS#11 library, or the smart card
// service, which has no path.
type Source struct {
	Scheme string `json:"scheme"`
	Path   string `json:"path,omitempty"`
}

// URI names any token of the source.
func (s Source) URI() URI { return URI{Scheme: s.Scheme, ModulePath: s.Path} }

// Surveyor is a [Driver] that runs code that is not ours, whose sources can be used one by
// one, so that each can be kept in a process of its own.
type Surveyor interface {
	Driver
	// Sources names the sources that may hold what u names, without loading any,
	// and what is wrong with their configuration.
	Sources(u URI) ([]Source, []Problem)
	// Survey lists the tokens of one of them, see [Driver.List].
	Survey(ctx context.Context, s Source) (Listing, error)
	// Match returns those of the tokens of one source that u names.
	Match(tokens []TokenInfo, u URI) []TokenInfo
}

// Views lists the tokens of all drivers as [Drivers.List] does, all at the same
// time, with what is on them; see [Viewer].
func (d Drivers) Views(ctx context.Context, patience time.Duration) ([]View, []Problem, error) {
	cards := make(chan struct{}) // closed when those of the PIV driver are known
	var known []View
	twinned := func(t TokenInfo) bool {
		if !maybeTwin(t) {
			return false
		}
		<-cards
		return slices.ContainsFunc(known, func(v View) bool { return twin(t, v.Info) })
	}
	if !slices.ContainsFunc(d, func(driver Driver) bool { return driver.Scheme() == SchemePIV }) {
		close(cards)
	}
	views, found := make([][]View, len(d)), make([]Listing, len(d))
	whole := make([]error, len(d))
	var wg sync.WaitGroup
	for i, driver := range d {
		wg.Go(func() {
			views[i], found[i].Problems, whole[i] = ViewsOf(ctx, driver, patience, twinned)
			for _, v := range views[i] {
				found[i].Tokens = append(found[i].Tokens, v.Info)
			}
			if driver.Scheme() == SchemePIV {
				known = views[i]
				close(cards)
			}
		})
	}
	wg.Wait()
	l := d.merge(found, whole)
	all := withoutTwins(slices.Concat(views...))
	slices.SortStableFunc(all, func(a, b View) int { // usable tokens first
		switch {
		case a.Info.Initialized == b.Info.Initialized:
			return 0
		case a.Info.Initialized:
			return -1
		}
		return 1
	})
	return all, l.Problems, ctx.Err()
}

// ViewsOf reads the tokens of one driver as [Viewer] says, if it is one.
func ViewsOf(
	ctx context.Context, d Driver, patience time.Duration, skip func(TokenInfo) bool,
) ([]View, []Problem, error) {
	if v, ok := d.(Viewer); ok {
		return v.Views(ctx, patience, skip)
	}
	return ReadViews(ctx, d, skip)
}

// ReadViews reads the tokens of d one after the other, but those that skip tells
// it to leave out.
func ReadViews(ctx context.Context, d Driver, skip func(TokenInfo) bool) ([]View, []Problem, error) {
	l, err := d.List(ctx)
	if err != nil {
		return nil, l.Problems, err
	}
	var views []View
	for _, info := range l.Tokens {
		if skip(info) {
			continue
		}
		v := View{Info: info}
		if info.Initialized {
			v.Slots, v.Err = ReadSlots(ctx, d, info.URI())
		}
		views = append(views, v)
	}
	return views, l.Problems, ctx.Err()
}

// ReadSlots reads what is on the token that u names, without a PIN.
func ReadSlots(ctx context.Context, d interface {
	Open(ctx context.Context, u URI) (Token, error)
}, u URI) ([]Slot, error) {
	t, err := d.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	slots, err := t.Slots(ctx, nil)
	if err != nil {
		err = fmt.Errorf("read token %q: %w", u.String(), err)
	}
	return slots, errors.Join(err, t.Close())
}

// WithoutTwins keeps one entry for each token. It leaves out PKCS#11 tokens that are the PIV
// application of a listed PIV card, and tokens that an earlier library in the list, or one
// without a server, shows too.
func WithoutTwins(tokens []TokenInfo) []TokenInfo {
	views := make([]View, len(tokens))
	for i, t := range tokens {
		views[i].Info = t
	}
	var single []TokenInfo
	for _, v := range withoutTwins(views) {
		single = append(single, v.Info)
	}
	return single
}

// withoutTwins is [WithoutTwins] for tokens with their contents.
func withoutTwins(views []View) []View {
	var single []View
	for i, twin := range Twins(views) {
		if !twin {
			single = append(single, views[i])
		}
	}
	return single
}

// Twins tells of each of the views whether [WithoutTwins] leaves its token out. An entry whose
// contents could be read goes before one whose contents could not.
func Twins(views []View) []bool {
	twins := make([]bool, len(views))
	for i, v := range views {
		twinned := slices.ContainsFunc(views, func(card View) bool {
			return twin(v.Info, card.Info) || maybeTwin(v.Info) && card.Info.Scheme == SchemePIV && sameKeys(v, card)
		})
		for j, other := range views {
			twinned = twinned || better(other, v, j < i) && sameToken(v.Info, other.Info)
		}
		twins[i] = twinned
	}
	return twins
}

// better tells whether a is a better way to a token than b; first says that a is listed first. A
// token of this machine goes before a forwarded one: a server may give a false description.
func better(a, b View, first bool) bool {
	if a.Info.IsForwarded() != b.Info.IsForwarded() {
		return b.Info.IsForwarded()
	}
	return a.Err == nil && b.Err != nil || (a.Err == nil) == (b.Err == nil) && first
}

// IsForwarded tells whether the token is reached through a server, which may be on another machine.
func (t TokenInfo) IsForwarded() bool { return t.Module != nil && t.Module.Server != "" }

// sameToken tells whether two libraries reach one token: its description is the same in both.
// Some libraries give all their tokens a serial of zeros, which identifies none. A token that is
// not set up has no serial; a forwarded one is recognized by the name of its reader.
func sameToken(a, b TokenInfo) bool {
	if a.Scheme != SchemePKCS11 || b.Scheme != SchemePKCS11 || a.Module == nil || b.Module == nil ||
		a.Module.Path == b.Module.Path || a.Initialized != b.Initialized || a.Serial != b.Serial ||
		a.Label != b.Label || a.Model != b.Model || a.Manufacturer != b.Manufacturer {
		return false
	}
	if !a.Initialized {
		return a.Reader == b.Reader && a.Reader != "" && (a.IsForwarded() || b.IsForwarded())
	}
	return strings.Trim(a.Serial, "0") != ""
}

// sameKeys tells whether a token has keys, and all of them are on the card too.
func sameKeys(v, card View) bool {
	some := false
	for _, s := range v.Slots {
		if s.Key == nil {
			continue
		}
		some = true
		if !slices.ContainsFunc(card.Slots, func(c Slot) bool {
			return c.Key != nil && SameKey(c.Key.Public, s.Key.Public)
		}) {
			return false
		}
	}
	return some
}

// openSCPIV is the manufacturer that OpenSC gives to PIV applications; it tells
// other applications of the same card (OpenPGP) apart.
const openSCPIV = "piv_II"

// twin tells whether t is the PIV card, seen through a module. Yubico's module gives the
// serial, or 0 if there is none. OpenSC's gives only the reader, cut to the 64 bytes of
// CK_SLOT_INFO's slotDescription. Readers of another machine may have the same names.
func twin(t, card TokenInfo) bool {
	if !maybeTwin(t) || card.Scheme != SchemePIV {
		return false
	}
	if t.Serial != "" && t.Serial == card.Serial && t.Manufacturer != openSCPIV {
		return true
	}
	reader := card.Reader[:min(len(card.Reader), 64)]
	return t.Reader != "" && t.Reader == strings.TrimRight(reader, " ") && !t.IsForwarded()
}

// maybeTwin tells whether t may be a PIV card seen through a module.
func maybeTwin(t TokenInfo) bool {
	return t.Scheme == SchemePKCS11 && (t.Manufacturer == openSCPIV || strings.HasPrefix(t.Manufacturer, "Yubico"))
}
