package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

// tokens asks every driver for its tokens, each on its own: one that hangs
// hides no other. A token that several reach is told of, and counted, once: by the
// way that is listed, whose fixes work.
func tokens(ctx context.Context, o *Options) []Check {
	all, _ := o.enrollments() // [clusters] tells what cannot be read
	areas := make([]area, len(o.Env.Drivers))
	var wg sync.WaitGroup
	for i, d := range o.Env.Drivers {
		wg.Go(func() { areas[i] = reach(ctx, d) })
	}
	wg.Wait()
	leaveTwinsOut(areas)
	found := make([][]Check, len(areas))
	var here []hsm.TokenInfo
	for i := range areas {
		here = append(here, areas[i].tokens...)
		wg.Go(func() { found[i] = areas[i].look(ctx, all) })
	}
	wg.Wait()
	checks := append(service(), slices.Concat(found...)...)
	if len(here) == 0 {
		checks = append(checks, Check{ID: "token", Group: GroupTokens, Title: "Tokens"}.
			with(Failed, "no token was found", "There is nothing to keep a key in.",
				"plug one in; `kubehsm token wait` shows it when it appears"))
	}
	return append(checks, absent(all, here, areas)...)
}

// absent tells of enrollments whose token is not among those that are here. Where its library
// failed in an area, nobody knows whether the token is there.
func absent(all []enrollment.Enrollment, here []hsm.TokenInfo, areas []area) []Check {
	var checks []Check
	for _, e := range all {
		if isHere(e, here...) {
			continue
		}
		uri := e.Key.TokenOnly().String()
		c := Check{ID: "absent/" + e.Name, Group: GroupTokens, Title: "Token of " + e.Name}
		other := func(o enrollment.Enrollment) bool { return shares(e, o) && isHere(o, here...) }
		if i := slices.IndexFunc(all, other); i >= 0 {
			if e.SpareOf == "" { // its context signs in all the same
				c.ID = "spare/" + e.Name
			}
			checks = append(checks, c.ok(e.Key.Place().Absent()+": "+uri+"; the token of "+all[i].Name+" signs in"))
			continue
		}
		if slices.ContainsFunc(areas, func(a area) bool { return a.failed(e.Key) }) {
			checks = append(checks, c.with(Warning, "not seen, as its library failed: "+uri,
				"kubectl cannot use this enrollment until the library answers.", "see the library's check above"))
			continue
		}
		checks = append(checks, c.with(Warning, e.Key.Place().Absent()+": "+uri,
			"kubectl cannot use this enrollment until the token is back.",
			e.Key.Place().Back()+"; `kubehsm token wait --token "+shell.Quote(uri)+"` tells when it is seen"))
	}
	return checks
}

// shares tells whether two enrollments share a context, as those of a token and its spare do.
func shares(a, b enrollment.Enrollment) bool {
	return cmp.Or(a.SpareOf, a.Name) == cmp.Or(b.SpareOf, b.Name)
}

// area is what a driver reaches.
type area struct {
	driver   hsm.Driver
	check    Check // the driver's own check
	views    []hsm.View
	tokens   []hsm.TokenInfo // tokens of the views, and those that leaveTwinsOut left out
	problems []hsm.Problem
	err      error
}

// failed tells whether the library that u names failed.
func (a area) failed(u hsm.URI) bool {
	return u.ModulePath != "" && slices.ContainsFunc(a.problems, func(p hsm.Problem) bool {
		return p.Source == u.ModulePath && (errors.Is(p.Err, hsm.ErrModule) || errors.Is(p.Err, hsm.ErrPending))
	})
}

// reach reads what a driver reaches.
func reach(ctx context.Context, d hsm.Driver) area {
	a := area{driver: d, check: Check{ID: "driver/" + d.Scheme(), Group: GroupTokens, Title: hsm.KindOf(d.Scheme()).Title}}
	a.views, a.problems, a.err = hsm.ViewsOf(ctx, d, silence, func(hsm.TokenInfo) bool { return false })
	if a.err != nil {
		a.views = nil
	}
	for _, v := range a.views {
		a.tokens = append(a.tokens, v.Info)
	}
	return a
}

// leaveTwinsOut leaves each token in the area by which it is listed.
func leaveTwinsOut(areas []area) {
	var all []hsm.View
	for _, a := range areas {
		all = append(all, a.views...)
	}
	twins := hsm.Twins(all)
	for i := range areas {
		a := &areas[i]
		mine := twins[:len(a.views)]
		twins = twins[len(a.views):]
		var single []hsm.View
		for j, v := range a.views {
			if !mine[j] {
				single = append(single, v)
			}
		}
		a.views = single
	}
}

// look says what there is in an area.
func (a area) look(ctx context.Context, all []enrollment.Enrollment) []Check {
	kind, err := hsm.KindOf(a.driver.Scheme()), a.err
	switch {
	case errors.Is(err, hsm.ErrUnavailable):
		return []Check{a.check.with(Note, err.Error(), "This build cannot reach such tokens.", hint.Of(err))}
	case errors.Is(err, hsm.ErrNoToken) && !errors.Is(err, hsm.ErrDenied):
		return []Check{a.check.with(Note, err.Error(), "This matters only if your token is one of these.", hint.Of(err))}
	case err != nil:
		return []Check{a.check.with(Failed, err.Error(), "Its tokens cannot be reached.",
			fixOr(err, "`kubehsm token list` shows more"))}
	}
	count := present.Count(len(a.views), "token")
	if len(a.views) == 0 && len(a.tokens) > 0 {
		count = "no other token"
	}
	checks := []Check{a.check.ok(count)}
	lacking := slices.ContainsFunc(all, func(e enrollment.Enrollment) bool {
		return e.Key.Scheme == a.driver.Scheme() && !isHere(e, a.tokens...)
	})
	for _, p := range a.problems {
		c := problem(kind, p)
		ofLibrary := errors.Is(p.Err, hsm.ErrModule) || kind.Modules && errors.Is(p.Err, hsm.ErrPending)
		if c.State == Failed && ofLibrary && !lacking {
			c.State = Warning // nothing of yours is behind it
		}
		checks = append(checks, c)
	}
	for _, v := range a.views {
		checks = append(checks, ofToken(ctx, a.driver, v.Info)...)
		if v.Err != nil {
			state := Warning // nothing of yours is on it
			if slices.ContainsFunc(all, func(e enrollment.Enrollment) bool { return isHere(e, v.Info) }) {
				state = Failed
			}
			c := Check{ID: "keys/" + v.Info.URI().String(), Group: GroupTokens, Title: "Keys on " + v.Info.Name()}
			checks = append(checks, c.with(state, v.Err.Error(), "Keys that cannot be read cannot be used.",
				fixOr(v.Err, v.Info.Place().Again()+", and run `kubehsm doctor` again")))
		} else {
			checks = append(checks, gone(v, all)...)
			checks = append(checks, certificates(v, all)...)
		}
	}
	return checks
}

// gone tells of enrollments whose key is no longer on their token: it was reset, or the key was deleted
// or replaced.
func gone(v hsm.View, all []enrollment.Enrollment) []Check {
	var checks []Check
	for _, e := range all {
		if isHere(e, v.Info) && token.IsGone(e.Key, e.KeyHash, v.Slots) {
			c := Check{ID: "key/" + e.Name, Group: GroupTokens, Title: "Key of " + e.Name}
			checks = append(checks, c.with(Failed, e.KeyGone().Error(),
				"Without the key, the certificate does not sign in, and nothing brings the key back.", e.Restart(hsm.URI{})))
		}
	}
	return checks
}

// certificates tells of those on a token that no enrollment here has: of each that can sign in, and why the others
// do not.
func certificates(v hsm.View, all []enrollment.Enrollment) []Check {
	var checks []Check
	fit, unfit := enroll.Adoptables(v.Slots, nil)
	for _, a := range fit {
		leaf := a.Certificate.Leaf
		if enrolled(a, all) {
			continue
		}
		c := Check{ID: "own/" + a.Slot.URI.String(), Group: GroupTokens, Title: "Certificate on " + v.Info.Name()}
		checks = append(checks, c.with(Note, fmt.Sprintf("%s, issued by %s, until %s: not enrolled on this computer",
			a.Certificate.Subject().User, leaf.Issuer.String(), present.Date(leaf.NotAfter)),
			"A cluster whose API server trusts its issuer accepts it.",
			"kubehsm enroll --use-certificate --key "+shell.Quote(a.Slot.URI.String())))
	}
	var problems []string
	for _, a := range unfit {
		if !enrolled(a, all) { // else the certificate in the state folder counts
			problems = append(problems, a.Unfit())
		}
	}
	if len(problems) == 0 {
		return checks
	}
	c := Check{ID: "unfit/" + v.Info.URI().String(), Group: GroupTokens, Title: "Other certificates on " + v.Info.Name()}
	if len(fit) > 0 { // the others are for mail and documents, as on a company card
		return append(checks, c.ok(strings.Join(problems, "; ")))
	}
	return append(checks, c.with(Note, strings.Join(problems, "; "),
		"None of the certificates on the token can sign in to a cluster.",
		"ask the issuer for one that is for client authentication; `kubehsm enroll` requests one from the cluster"))
}

// enrolled tells whether an enrollment here has the key of a certificate.
func enrolled(a enroll.Adoptable, all []enrollment.Enrollment) bool {
	hash, err := hsm.Fingerprint(a.Certificate.Leaf.PublicKey)
	return err == nil && slices.ContainsFunc(all, func(e enrollment.Enrollment) bool { return e.KeyHash == hash })
}

// silence is how long a driver may take.
const silence = 4500 * time.Millisecond

// isHere tells whether the enrolled key's token is among those, by whatever
// library.
func isHere(e enrollment.Enrollment, here ...hsm.TokenInfo) bool {
	return slices.ContainsFunc(here, e.Key.Identity().MatchToken)
}

// problem words a reader or library that could not be listed. That nothing is
// plugged in where a reader or service would be is no fault.
func problem(kind hsm.Kind, p hsm.Problem) Check {
	c := Check{ID: "source/" + p.Source, Group: GroupTokens, Title: kind.Source + " " + p.Source}
	if !kind.Modules && p.Source == "" {
		c.ID, c.Title = "reader", "Readers"
	}
	path := ""
	if kind.Modules {
		path = p.Source
	}
	state, why := Failed, "Tokens behind it cannot be used."
	switch {
	case errors.Is(p.Err, hsm.ErrPending):
		return c.with(state, p.Err.Error(), "It hangs, or is very slow; tokens behind it cannot be used meanwhile.",
			hsm.Hung(path))
	case errors.Is(p.Err, hsm.ErrDenied):
	case errors.Is(p.Err, hsm.ErrNoToken), errors.Is(p.Err, hsm.ErrUnsupported):
		state, why = Note, "This matters only if your token is there."
	case errors.Is(p.Err, hsm.ErrBusy):
		state, why = Warning, "One program at a time can use a card; kubectl would fail with the same words."
	}
	general := ""
	if kind.Modules && errors.Is(p.Err, hsm.ErrModule) {
		general = "see what its maker says of that error, and whether you may read its configuration and tokens; to " +
			"leave it out, list your own in config.yaml with `onlyModules: true`"
	}
	return c.with(state, p.Err.Error(), why, fixOr(p.Err, general))
}

// ofToken looks at one token: the state of its PIN and what is known of its
// firmware. No PIN is asked.
func ofToken(ctx context.Context, d hsm.Driver, t hsm.TokenInfo) []Check {
	c := Check{ID: "token/" + t.URI().String(), Group: GroupTokens, Title: "Token " + t.Name()}
	found := strings.Join(slices.DeleteFunc([]string{t.Manufacturer, t.Model, t.Serial, firmwareWords(t),
		moduleWords(t.Module)},
		func(s string) bool { return s == "" }), ", ")
	checks := []Check{pin(c, t, found)}
	if t.Can.Details {
		checks = append(checks, firmware(t)...)
		checks = append(checks, defaults(ctx, d, t)...)
	}
	return checks
}

func pin(c Check, t hsm.TokenInfo, found string) Check {
	uri := t.URI().String()
	switch pin := found + ": PIN " + present.PINWords(t, nil); {
	case !t.Initialized:
		return c.with(Note, found+": not initialized", "It holds nothing yet.",
			"kubehsm token init --label NAME --token "+shell.Quote(t.BlankURI().String()))
	case t.PIN.Blocked():
		return c.with(Failed, pin, "No key on it can be used.", "kubehsm token pin unblock --token "+shell.Quote(uri))
	case t.PIN.NotSet:
		return c.with(Failed, pin, "Keys cannot be made or used until a PIN is set.",
			"kubehsm token pin unblock --token "+shell.Quote(uri))
	case t.PIN.Final, t.PIN.Retries == 1:
		return c.with(Warning, pin, "Another wrong PIN blocks it.", "make sure that you have the PIN before you go on")
	case t.PIN.Low:
		return c.with(Warning, pin, "Wrong PINs were tried; the right one resets the counter.",
			"kubehsm token info --token "+shell.Quote(uri))
	case t.PIN.Default:
		return c.with(Warning, pin, "Everybody knows the default PIN.", "kubehsm token pin change --token "+shell.Quote(uri))
	default:
		return c.ok(pin)
	}
}

// defaults tells of default values beside the PIN.
func defaults(ctx context.Context, d hsm.Driver, t hsm.TokenInfo) []Check {
	opened, err := d.Open(ctx, t.URI())
	if err != nil {
		return nil // the token is gone or busy: the next listing tells
	}
	defer opened.Close()
	details, err := opened.Details(ctx)
	if err != nil {
		return nil
	}
	uri := t.URI().String()
	var checks []Check
	if details.PUK != nil && details.PUK.Default {
		checks = append(checks, Check{ID: "puk/" + t.Serial, Group: GroupTokens, Title: "PUK of " + t.Name()}.
			with(Warning, "the default PUK is in force", "Anybody who finds the token can set a new PIN with it.",
				"kubehsm token puk change --token "+shell.Quote(uri)))
	}
	if details.ManagementKey.Default {
		checks = append(checks, Check{ID: "management-key/" + t.Serial, Group: GroupTokens,
			Title: "Management key of " + t.Name()}.
			with(Warning, "the default management key is in force", "Any program can replace keys and certificates with it.",
				"kubehsm token management-key set --protect --token "+shell.Quote(uri)))
	}
	return checks
}

// firmware says what is publicly known of a YubiKey's firmware.
func firmware(t hsm.TokenInfo) []Check {
	v, ok := version(t.Firmware)
	if !ok || !strings.Contains(strings.ToLower(t.Manufacturer+t.Model+t.Reader), "yubi") {
		return nil
	}
	c := Check{ID: "firmware/" + t.Serial, Group: GroupTokens, Title: "Firmware of " + t.Name()}
	switch {
	case slices.Compare(v, []int{4, 2, 6}) >= 0 && slices.Compare(v, []int{4, 3, 5}) < 0:
		return []Check{c.with(Warning, t.Firmware+": RSA keys made on it are weak (CVE-2017-15361)",
			"Such a key can be computed from its certificate.",
			"use P-256 keys on it, or another token; firmware cannot be updated")}
	case slices.Compare(v, []int{5, 7, 0}) < 0:
		return []Check{c.with(Note,
			t.Firmware+": an attacker with the token and a laboratory could extract an ECDSA key (YSA-2024-03)",
			"This matters if such an attacker could get the token.",
			"treat a token that was lost and found as lost; firmware 5.7 and later is not affected")}
	}
	return []Check{c.ok(t.Firmware)}
}

// version reads "5.7.1".
func version(s string) ([]int, bool) {
	var v []int
	for _, part := range strings.Split(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		v = append(v, n)
	}
	return v, len(v) == 3
}

func firmwareWords(t hsm.TokenInfo) string {
	if t.Firmware == "" {
		return ""
	}
	return "firmware " + t.Firmware
}

func moduleWords(m *hsm.Module) string {
	if m == nil {
		return ""
	}
	if m.Version != "" {
		return fmt.Sprintf("through %s (%s %s)", m.Path, m.Description, m.Version)
	}
	return "through " + m.Path
}
