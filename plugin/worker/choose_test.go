//go:build unix

package worker

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
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
