package hardware

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/tokens"
)

// one finds the token to examine: the one that u names, or the only one that there is.
func one(ctx context.Context, drivers hsm.Drivers, u hsm.URI) (hsm.TokenInfo, error) {
	l, err := drivers.List(ctx)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	var found, names []string
	var at hsm.TokenInfo
	for _, info := range l.Tokens {
		if !info.Initialized {
			continue
		}
		names = append(names, "'"+info.URI().Identity().String()+"'")
		if u.Scheme == "" || u.TokenOnly().MatchToken(info) {
			at, found = info, append(found, info.Name())
		}
	}
	switch {
	case len(found) == 1:
		return at, nil
	case len(found) == 0 && len(names) == 0:
		return at, fmt.Errorf("%w: none is found", hsm.ErrNoToken)
	case len(found) == 0:
		return at, fmt.Errorf("%w: there are TOKEN=%s", hsm.ErrNoToken, strings.Join(names, ", TOKEN="))
	}
	return at, fmt.Errorf("%w: name one, as TOKEN=%s", hsm.ErrSeveralTokens, strings.Join(names, ", TOKEN="))
}

// examine reads a token without a PIN and changes nothing on it.
func examine(ctx context.Context, d hsm.Driver, u hsm.URI) (seen []tokens.Contract, err error) {
	note := func(name string, f func() (note string, err error)) {
		began := time.Now()
		words, err := f()
		c := tokens.Contract{Name: name, Result: hsmtest.Can, Milliseconds: time.Since(began).Milliseconds(), Note: words}
		switch {
		case errors.Is(err, hsm.ErrUnsupported):
			c.Result = hsmtest.Cannot
		case err != nil:
			c.Result = hsmtest.Failed
		}
		seen = append(seen, c)
	}
	note("Listed", func() (string, error) {
		l, err := d.List(ctx)
		for _, info := range l.Tokens {
			if u.MatchToken(info) {
				return "", err
			}
		}
		return "", errors.Join(err, hsm.ErrNoToken)
	})
	began := time.Now()
	tok, err := d.Open(ctx, u)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, tok.Close()) }()
	seen = append(seen, tokens.Contract{Name: "Opened by its URI", Result: hsmtest.Can,
		Milliseconds: time.Since(began).Milliseconds()})
	var before hsm.TokenInfo
	note("Tells the state of its PIN", func() (_ string, err error) {
		before, err = tok.Info(ctx)
		if err == nil && before.PIN.Retries >= 0 {
			return "counts the tries", nil
		}
		return "does not count the tries", err
	})
	var slots []hsm.Slot
	note("Keys and certificates listed without a PIN", func() (_ string, err error) {
		slots, err = tok.Slots(ctx, nil)
		return "", err
	})
	note("Listed the same again", func() (string, error) {
		again, err := tok.Slots(ctx, nil)
		if err == nil && !reflect.DeepEqual(ids(slots), ids(again)) {
			err = errors.New("another listing")
		}
		return "", err
	})
	note("All of them readable", func() (string, error) {
		for _, s := range slots {
			if s.Problem != "" && s.Half == "" {
				return "", errors.New(s.Problem)
			}
		}
		return "", nil
	})
	note("Attests a key that it made", func() (string, error) { return attests(ctx, tok, before, slots) })
	note("Left as it was", func() (string, error) {
		after, err := tok.Info(ctx)
		if err == nil && (after.PIN != before.PIN || tok.Unlocked()) {
			err = errors.New("the state of the PIN has changed")
		}
		return "", err
	})
	return append(seen, abilities(before.Can)...), nil
}

func ids(slots []hsm.Slot) (out []string) {
	for _, s := range slots {
		out = append(out, s.URI.String())
	}
	return out
}

// attests has the first key that was made on the token attested.
func attests(ctx context.Context, tok hsm.Token, info hsm.TokenInfo, slots []hsm.Slot) (string, error) {
	if !info.Can.Attest {
		return "", hsm.ErrUnsupported
	}
	for _, s := range slots {
		if s.Key != nil && s.Key.Origin == hsm.Generated {
			_, err := tok.Attest(ctx, s.URI)
			return "", err
		}
	}
	return "there is none to try", nil
}

// abilities are what the token says that it can do. None is tried.
func abilities(can hsm.Abilities) (out []tokens.Contract) {
	v := reflect.ValueOf(can)
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Bool {
			continue
		}
		result := hsmtest.Cannot
		if v.Field(i).Bool() {
			result = hsmtest.Can
		}
		out = append(out, tokens.Contract{Name: "Says that it can: " + v.Type().Field(i).Name, Result: result})
	}
	return out
}

// mayErase refuses to erase a token whose whole serial was not typed.
func mayErase(info hsm.TokenInfo, typed string) error {
	switch {
	case info.Serial == "":
		return errors.New("the token has no serial, so that nobody can say that it is meant: it is not erased")
	case typed != info.Serial:
		return errors.New("ERASE is not the token's whole serial: nothing was done (`kubehsm token list` shows it)")
	}
	return nil
}

// surroundings adds what the token was examined on.
func surroundings(ctx context.Context, r *tokens.Report) {
	r.System = runtime.GOOS + "/" + runtime.GOARCH
	for _, about := range []string{said(ctx, "uname", "-sr"), distribution()} {
		if about != "" {
			r.System += ", " + about
		}
	}
	if r.Library == "" {
		r.Library = said(ctx, "pcscd", "--version")
	}
	r.Program = said(ctx, "git", "describe", "--tags", "--always", "--dirty")
}

// said is the first line that a program says, up to a full stop; "" where there is no such
// program.
func said(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil { // optional in the report
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSuffix(strings.TrimSpace(line), ".")
}
