package tokens

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// The ways to examine a physical token.
const (
	CheckRun = "hardware-check" // reads, without a PIN
	SuiteRun = "hardware-suite" // the contract suite
)

// Report is what was seen of a physical token. It names no owner: of the serial there is
// the end alone, and nothing of what the token holds.
type Report struct {
	Run      string                           `json:"run"`  // [CheckRun] or [SuiteRun]
	Date     string                           `json:"date"` // 2006-01-02
	Token    string                           `json:"token"`
	Firmware string                           `json:"firmware,omitempty"`
	Serial   string                           `json:"serial,omitempty"` // the end of the serial
	Driver   string                           `json:"driver"`           // scheme, and for PKCS#11 the module
	Library  string                           `json:"library"`          // library below the driver, with its version
	System   string                           `json:"system"`
	Program  string                           `json:"program"` // kubehsm's version
	Seen     []Contract                       `json:"seen"`
	Can      map[hsm.Algorithm]hsmtest.Result `json:"algorithms,omitempty"`
}

// Contract is one promise, and how the token kept it.
type Contract struct {
	Name   string         `json:"name"`
	Result hsmtest.Result `json:"result"`
	// Milliseconds is how long it took.
	Milliseconds int64 `json:"milliseconds,omitempty"`
	// Note says in a clause what was seen beside it.
	Note string `json:"note,omitempty"`
}

// NewReport describes a token; what was seen is added by the caller.
func NewReport(run string, info hsm.TokenInfo, now time.Time) Report {
	r := Report{Run: run, Date: now.Format(time.DateOnly), Firmware: info.Firmware, Serial: ShortSerial(info.Serial),
		Token: strings.Join(strings.Fields(info.Manufacturer+" "+info.Model), " "), Driver: info.Scheme}
	if m := info.Module; m != nil {
		r.Driver += ": " + filepath.Base(m.Path)
		r.Library = strings.Join(strings.Fields(m.Description+" "+m.Version), " ")
	}
	return r
}

// serialEnd is how much of a serial a report tells.
const serialEnd = 4

// ShortSerial is the end of a serial: enough to tell two tokens of one person apart.
func ShortSerial(serial string) string {
	if len(serial) < 2*serialEnd {
		return ""
	}
	return "…" + serial[len(serial)-serialEnd:]
}

// Add adds what the contract suite has seen.
func (r *Report) Add(seen hsmtest.Results) {
	took := map[string]time.Duration{}
	for _, each := range seen.Timings {
		took[each.Part] = each.Took
	}
	for _, part := range slices.Sorted(maps.Keys(seen.Parts)) {
		r.Seen = append(r.Seen, Contract{Name: part, Result: seen.Parts[part], Milliseconds: took[part].Milliseconds()})
	}
	r.Can = seen.Algorithms
}

// Failed tells whether the token did not keep a contract.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Seen, func(c Contract) bool { return c.Result == hsmtest.Failed })
}

// unfit is what has no place in a file's name.
const unfit = `[^a-z0-9.]+`

// Save writes the report into a folder, which is made, and returns the file's path.
func (r Report) Save(dir string) (string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := regexp.MustCompile(unfit).ReplaceAllString(strings.ToLower(r.Run+" "+r.Token+" "+r.Firmware+" "+r.Date), "-")
	path := filepath.Join(dir, strings.Trim(name, "-.")+".json")
	return path, os.WriteFile(path, append(data, '\n'), 0o644)
}
