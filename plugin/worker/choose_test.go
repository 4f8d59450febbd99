//go:build unix

package worker

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// TestForwardedTokenComesSecond: a server whose token says of itself what one of this machine
// says is not taken for it, whichever library comes first.
func TestForwardedTokenComesSecond(t *testing.T) {
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "x", Serial: "5"}
	by := func(path, server string) sighting {
		return sighting{source: &source{Source: hsm.Source{Path: path}}, present: true, found: []hsm.TokenInfo{{
			Scheme: hsm.SchemePKCS11, Label: "x", Serial: "5", Initialized: true,
			Module: &hsm.Module{Path: path, Server: server}}}}
	}
	here, far := by("/a.so", ""), by("/client.so", "|ssh")
	for _, c := range []struct {
		all  []sighting
		want *source
	}{
		{[]sighting{here, far}, here.source},
		{[]sighting{far, here}, here.source},
		{[]sighting{{}, far}, far.source},
		{[]sighting{far, by("/other.so", "|other")}, far.source},
	} {
		if got, err := choose(u, c.all, false); err != nil || got != c.want {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestOneTokenOfSeveralLibraries: a name without a serial is enough for one token, however many
// libraries show it, and not for two.
func TestOneTokenOfSeveralLibraries(t *testing.T) {
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "x"}
	by := func(path, serial string) sighting {
		return sighting{source: &source{Source: hsm.Source{Path: path}}, present: true, found: []hsm.TokenInfo{{
			Scheme: hsm.SchemePKCS11, Label: "x", Manufacturer: "m", Model: "n", Serial: serial, Initialized: true,
			Module: &hsm.Module{Path: path}}}}
	}
	first, again, another := by("/a.so", "5"), by("/proxy.so", "5"), by("/b.so", "6")
	if got, err := choose(u, []sighting{first, again}, false); err != nil || got != first.source {
		t.Errorf("one token: %v, %v", got, err)
	}
	_, err := choose(u, []sighting{first, again, another}, false)
	if !errors.Is(err, hsm.ErrSeveralTokens) || strings.Count(hint.Of(err), "pkcs11:") != 2 {
		t.Errorf("two tokens: %v, %q", err, hint.Of(err))
	}
}
