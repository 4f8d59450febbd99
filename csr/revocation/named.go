package revocation

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Named finds the first entry of the certificate whose fingerprint begins with some digits: enough of them to tell
// it from all others.
func (l List) Named(digits string) (Entry, error) {
	if full, err := ParseFingerprint(digits); err == nil {
		digits = full
	}
	digits = strings.ToLower(strings.TrimSuffix(digits, "…")) // a refusal cuts the hash with it
	var found []Entry
	for e := range l.All() {
		same := func(other Entry) bool { return other.Certificate == e.Certificate }
		if strings.HasPrefix(e.Certificate, digits) && digits != "" && !slices.ContainsFunc(found, same) {
			found = append(found, e)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	err := fmt.Errorf("%q is none of the revoked certificates", digits)
	if len(found) > 1 {
		err = fmt.Errorf("%d revoked certificates begin with %q", len(found), digits)
	}
	return Entry{}, hint.With(err, "`kubehsm revocation list` shows them")
}

// SerialNumbers reads a serial number, whose digits may mean either base, as big.Int writes it.
func SerialNumbers(s string) (all []string) {
	digits := strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(s, ":", "")), "0x")
	for _, base := range []int{10, 16} {
		if n, ok := new(big.Int).SetString(digits, base); ok && (base == 16 || digits == s) {
			all = append(all, n.String())
		}
	}
	return all
}
