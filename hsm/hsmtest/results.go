package hsmtest

import (
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Result is what a token was seen to do with one thing.
type Result string

// The results. Cannot is an outcome that the driver promises to report as
// [hsm.ErrUnsupported], not a failure.
const (
	Can      Result = "yes"
	Cannot   Result = "no"
	Untested Result = "not tried"
	Failed   Result = "failed" // the contract was not kept
)

// Timing is how long a part of the suite took.
type Timing struct {
	Part string
	Took time.Duration
}

// Results are what [Run] found out.
type Results struct {
	// Parts has the result of each of the suite's parts by name, and of "PSS".
	Parts map[string]Result
	// Algorithms has those with which every signature and handshake worked.
	Algorithms map[hsm.Algorithm]Result
	// Timings are those of the parts that ran, in their order.
	Timings []Timing
	// Complete: every part ran (no -run=... left one out) and none failed.
	Complete bool
}

func newResults(f Fixture) Results {
	r := Results{Parts: map[string]Result{"PSS": Untested}, Algorithms: map[hsm.Algorithm]Result{}, Complete: true}
	for _, a := range append(slices.Clone(f.Algorithms), f.Slow...) {
		r.Algorithms[a] = Untested
	}
	return r
}

// note records the verdict on a part.
func (r *Results) note(f Fixture, name string, verdict Result) {
	if name == "Delete" && f.NoDelete && verdict == Can {
		verdict = Cannot // the driver says that it cannot
	}
	if name == "Slow" { // Slow only adds algorithms to the other parts
		for _, a := range f.Slow {
			r.Algorithms[a] = verdict
		}
		return
	}
	r.Parts[name] = verdict
	if name != "Sign" {
		return
	}
	for _, a := range f.Algorithms {
		r.Algorithms[a] = verdict
		if a.RSABits() > 0 {
			r.Parts["PSS"] = verdict
		}
	}
	if f.NoPSS {
		r.Parts["PSS"] = Cannot
	}
}

// testReadOnly: what a token cannot do through this driver is refused as such,
// and nothing is changed.
func testReadOnly(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	before := len(slots(t, tok, b.typing(t)))
	_, err := tok.Generate(t.Context(), b.options(t, b.Algorithms[0]), b.typing(t))
	wantErr(t, err, hsm.ErrUnsupported)
	cert := certify(t, b.signer(t, tok, slot, b.typing(t)), "other")
	wantErr(t, tok.StoreCertificate(t.Context(), slot.URI, cert, b.typing(t)), hsm.ErrUnsupported)
	wantErr(t, tok.Delete(t.Context(), slot.URI, b.typing(t)), hsm.ErrUnsupported)
	if after := len(slots(t, tok, b.typing(t))); after != before {
		t.Errorf("%d slots, before the refusals %d", after, before)
	}
	signOne(t, b.signer(t, tok, slot, b.typing(t)))
}
