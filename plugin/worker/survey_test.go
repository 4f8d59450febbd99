//go:build unix

package worker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// TestManyTokens: of more tokens than fit into an answer the first are listed, and the rest
// is counted.
func TestManyTokens(t *testing.T) {
	for _, n := range []int{0, 10, 4096} {
		var out results
		for i := range n {
			out.Tokens = append(out.Tokens, hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: fmt.Sprint("token ", i),
				Initialized: true, Serial: fmt.Sprintf("%032d", i), Module: &hsm.Module{Path: "/usr/lib/hsm.so"}})
		}
		p := cut(&out)
		if err := fits(out); err != nil {
			t.Errorf("%d tokens: %v", n, err)
		}
		if n < 4096 {
			if p != nil || len(out.Tokens) != n {
				t.Errorf("%d of %d tokens, %v", len(out.Tokens), n, p)
			}
			continue
		}
		listed := len(out.Tokens)
		words := fmt.Sprintf("%d tokens too many to list; the first left out is token %d", n-listed, listed)
		if listed < 100 || p == nil || p.Source != "/usr/lib/hsm.so" || !errors.Is(p.Err, hsm.ErrModule) ||
			!strings.Contains(p.Err.Error(), words) || hinting.Of(p.Err) == "" {
			t.Errorf("%d listed: %+v", listed, p)
		}
	}
}

// crowded is a token with two slots.
type crowded struct {
	hsm.Token
	slot hsm.Slot
}

func (c crowded) AllSlots(context.Context) ([]hsm.Slot, error) {
	return []hsm.Slot{c.slot, {ID: "9c", URI: c.slot.URI}}, nil
}

// TestCrowdedSlot: a slot with more older certificates than fit into one answer arrives whole.
func TestCrowdedSlot(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	cert, err := hsmtest.Certify(key, "old")
	check(t, err)
	const many = 2000
	token := crowded{slot: hsm.Slot{ID: "9a", URI: hsm.URI{Scheme: hsm.SchemePIV, Serial: "1"}, Certificate: cert,
		Older: slices.Repeat([]*x509.Certificate{cert}, many)}}
	var l slotReader
	var all []hsm.Slot
	answers := 0
	for q := (arguments{All: true}); ; answers++ {
		out, err := l.slotsFrom(t.Context(), asked{arguments: q, token: token})
		check(t, err)
		b, err := json.Marshal(out)
		check(t, err)
		var sent results
		check(t, json.Unmarshal(b, &sent))
		all, err = joined(all, sent.Slots)
		check(t, err)
		if q.From += len(out.Slots); q.From >= out.Total {
			break
		}
	}
	if len(all) != 2 || len(all[0].Older) != many || all[0].Certificate == nil || all[1].ID != "9c" || answers < 2 {
		t.Errorf("%d slots in %d answers", len(all), answers)
	}
}
