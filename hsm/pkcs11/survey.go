//go:build cgo

package pkcs11

import (
	"context"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
)

var _ hsm.Surveyor = (*Driver)(nil)

// Sources implements [hsm.Surveyor].
func (d *Driver) Sources(u hsm.URI) ([]hsm.Source, []hsm.Problem) {
	candidates, problems := d.candidates(u)
	all := make([]hsm.Source, 0, len(candidates))
	for _, c := range candidates {
		all = append(all, hsm.Source{Scheme: hsm.SchemePKCS11, Path: c.Path})
	}
	return all, problems
}

// Survey implements [hsm.Surveyor].
func (d *Driver) Survey(ctx context.Context, s hsm.Source) (l hsm.Listing, err error) {
	_, l.Tokens, l.Problems, err = d.tokens(ctx, d.candidate(s))
	return l, err
}

// candidate is the module that s names, with its name and environment if they
// are known.
func (d *Driver) candidate(s hsm.Source) Module {
	all, _ := d.candidates(hsm.URI{})
	for _, c := range all {
		if c.Path == s.Path {
			return c
		}
	}
	return Module{Path: s.Path, real: p11kit.Real(s.Path)}
}

// Match implements [hsm.Surveyor].
func (*Driver) Match(tokens []hsm.TokenInfo, u hsm.URI) []hsm.TokenInfo { return matching(tokens, u) }

// Knows tells whether the module at path is one of those that the options name
// or that are discovered: code that the user or the system vouches for, unlike
// a path that somebody else's file gives.
func (d *Driver) Knows(path string) bool {
	where := sync.OnceValue(p11kit.Standard)
	_, own, proxied := d.own(where)
	if len(own) > 0 && own[p11kit.Real(path)] {
		return true
	}
	if !d.options.Discover || proxied {
		return false
	}
	_, ok := where().Find(path)
	return ok
}
