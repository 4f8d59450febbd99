//go:build unix

package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// TestManyTokens: of more tokens than fit into an answer the first are listed, and the rest
// is counted.
func TestManyTokens(t *testing.T) {
	for _, n := range []int{0, 10, 4096} {
		var out surveyAnswer
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
