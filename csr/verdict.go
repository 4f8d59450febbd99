package csr

import "slices"

// Verdict is what a forecast says of one point.
type Verdict string

// The verdicts. Only Refuse says that the request cannot succeed.
const (
	OK      Verdict = "ok"
	Warn    Verdict = "warn"
	Refuse  Verdict = "refuse"
	Unknown Verdict = "unknown"
)

// Point is one point of a forecast. Reason and Evidence may hold text of the
// cluster's: clean them before printing.
type Point struct {
	// ID names the point for good: "create", "signer", "usages" …
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Reason is a clause; Evidence is what it rests on, empty only if unknown.
	Reason   string `json:"reason"`
	Evidence string `json:"evidence,omitempty"`
}

// Refused are the points that stand in the way for certain.
func Refused(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Verdict != Refuse })
}
