package externalsigner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
)

type place struct {
	uri    hsm.URI
	module string  // a library that may be loaded, or ""
	slot   *uint64 // CK_SLOT_ID or index, for want of a better name
}

func (o Options) locate(ctx context.Context, c wire.Config) (place, error) {
	p := place{module: c.PathLib}
	if c.URI != nil {
		p.uri = *c.URI
		if p.uri.PINSource != "" {
			if err := pinsource.Listed(o.PINSources, p.uri); err != nil {
				o.warn("%s", err)
			}
			p.uri.PINSource = "" // the prompter reads the listed source
		}
		switch {
		case !p.uri.Kind().Modules:
			p.module = ""
		case p.uri.ModulePath != "":
			p.module = p.uri.ModulePath
		}
	} else {
		p.uri = hsm.ModuleObject([]byte{*c.ObjectID})
		p.slot = c.SlotID
	}
	if p.module == "" {
		return p, nil
	}
	var err error
	p.module, err = o.Modules.admit(ctx, p.module, o.Prompter)
	p.uri.ModulePath = p.module
	return p, err
}

// open takes a slot number as a CK_SLOT_ID, as the prototype's signer does, or, if no token has
// that, as an index among the module's tokens, as the KEP's example does.
func (p *place) open(ctx context.Context, drivers hsm.Drivers) (hsm.Token, error) {
	if p.slot == nil {
		return drivers.Open(ctx, p.uri)
	}
	u := p.uri.TokenOnly()
	u.SlotID = p.slot
	token, err := drivers.Open(ctx, u)
	if !errors.Is(err, hsm.ErrNoToken) {
		return token, err
	}
	listing, lerr := drivers.List(ctx)
	if lerr != nil {
		return nil, lerr
	}
	tokens := ofModule(listing, p.module)
	if *p.slot >= uint64(len(tokens)) || !tokens[*p.slot].Initialized {
		return nil, hint.With(fmt.Errorf("slot %d of %s: %w", *p.slot, p.module, err), slotHint(tokens))
	}
	return drivers.Open(ctx, tokens[*p.slot].URI())
}

func ofModule(l hsm.Listing, path string) (tokens []hsm.TokenInfo) {
	for _, t := range l.Tokens {
		if t.Module != nil && realPath(t.Module.Path) == realPath(path) {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

func slotHint(tokens []hsm.TokenInfo) string {
	var found []string
	for _, t := range tokens {
		if t.Initialized {
			found = append(found, "'"+t.URI().String()+"'")
		}
	}
	if len(found) == 0 {
		return hsm.Somewhere.Missing()
	}
	return "slot numbers move; name the token by a uri instead: " + strings.Join(found, ", ")
}

func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
