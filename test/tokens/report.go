package tokens

import (
	"encoding/json"
	"fmt"
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

// column is the suite's results for the table of features.
func (r Report) column() Column {
	c := Column{Title: r.Token + " " + r.Firmware, Driver: r.Driver, Algorithms: r.Can,
		Parts: map[string]hsmtest.Result{}}
	for _, each := range r.Seen {
		c.Parts[each.Name] = each.Result
	}
	return c
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

const reportsHead = `
## Physical tokens

Reports from people who ran kubehsm with their own token. Both commands write one file, which names neither
the token's owner nor its contents:

- ` + "`make hardware-check`" + ` reads the token, without a PIN, and changes nothing.
- ` + "`make hardware-suite TOKEN=… ERASE=…`" + ` runs the contract suite. ` +
	`It is for a token that may be erased: ERASE is the
  token's whole serial.

Put such a file into ` + "`test/tokens/physical`" + `, and ` + "`go run ./test/tokens/table`" + ` lists it here.

`

// reported is the section about physical tokens.
func reported(b *strings.Builder, all []Report) {
	b.WriteString(reportsHead)
	if len(all) == 0 {
		b.WriteString("None yet.\n")
		return
	}
	b.WriteString("| Token | Firmware | Date | System | Reached by | Run | Contracts |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	var suites []Column
	for _, r := range all {
		var failed []string
		kept := 0
		for _, c := range r.Seen {
			switch c.Result {
			case hsmtest.Can, hsmtest.Cannot:
				kept++
			case hsmtest.Failed:
				failed = append(failed, safe(c.Name))
			}
		}
		words := fmt.Sprintf("%d kept", kept)
		if len(failed) > 0 {
			words += ", failed: " + strings.Join(failed, ", ")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", safe(r.Token), safe(r.Firmware), safe(r.Date),
			safe(r.System), safe(strings.Trim(r.Driver+", "+r.Library, ", ")), safe(r.Run), words)
		if r.Run == SuiteRun {
			suites = append(suites, r.column())
		}
	}
	if len(suites) > 0 {
		b.WriteString("\nResults of the contract suite with these tokens:\n\n")
		table(b, suites)
	}
}
