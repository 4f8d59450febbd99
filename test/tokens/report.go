package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
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
	for _, each := range seen.Timings {
		result, listed := seen.Parts[each.Part]
		if !listed { // contracts beyond single algorithms
			continue
		}
		r.Seen = append(r.Seen, Contract{Name: each.Part, Result: result, Milliseconds: each.Took.Milliseconds()})
	}
	var untried []string
	for part, result := range seen.Parts {
		if !slices.ContainsFunc(r.Seen, func(c Contract) bool { return c.Name == part }) && part != "PSS" {
			untried = append(untried, part)
			r.Seen = append(r.Seen, Contract{Name: part, Result: result})
		}
	}
	tail := r.Seen[len(r.Seen)-len(untried):]
	slices.SortFunc(tail, func(a, b Contract) int { return strings.Compare(a.Name, b.Name) })
	r.Seen = append(r.Seen, Contract{Name: "PSS", Result: seen.Parts["PSS"]})
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

// fence begins the part of a report that programs read.
const fence = "```json\n"

// Markdown is the report as a person reads it, and at its end as [ParseReport] does.
func (r Report) Markdown() (string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# kubehsm %s: %s\n\n", safe(r.Run), safe(r.Token))
	for _, line := range [][2]string{{"Date", r.Date}, {"Token", r.Token}, {"Firmware", r.Firmware}, {"Serial", r.Serial},
		{"Reached by", r.Driver}, {"Library", r.Library}, {"System", r.System}, {"kubehsm", r.Program}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "- %s: %s\n", line[0], safe(line[1]))
		}
	}
	b.WriteString("\n| Contract | Result | Seconds | |\n| --- | --- | --- | --- |\n")
	for _, c := range r.Seen {
		took := ""
		if c.Milliseconds > 0 {
			took = fmt.Sprintf("%.2f", float64(c.Milliseconds)/1000)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", safe(c.Name), word(c.Result), took, safe(c.Note))
	}
	for _, a := range algorithms {
		if result, tried := r.Can[a]; tried {
			fmt.Fprintf(&b, "| Signs and connects with %s | %s | | |\n", a, word(result))
		}
	}
	b.WriteString("\nThe same for programs:\n\n" + fence + string(data) + "\n```\n")
	return b.String(), nil
}

// ParseReport reads what [Report.Markdown] wrote.
func ParseReport(text string) (Report, error) {
	_, data, found := strings.Cut(text, fence)
	data, _, closed := strings.Cut(data, "\n```")
	if !found || !closed {
		return Report{}, errors.New("no report in it")
	}
	var r Report
	return r, json.Unmarshal([]byte(data), &r)
}

// unfit is what has no place in a file's name.
const unfit = `[^a-z0-9.]+`

// Save writes the report into a folder, which is made, and returns the file's path.
func (r Report) Save(dir string) (string, error) {
	text, err := r.Markdown()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := regexp.MustCompile(unfit).ReplaceAllString(strings.ToLower(r.Run+" "+r.Token+" "+r.Firmware+" "+r.Date), "-")
	path := filepath.Join(dir, strings.Trim(name, "-.")+".md")
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// Reports reads those of physical tokens below root, by name.
func Reports(root string) ([]Report, error) {
	paths, err := filepath.Glob(filepath.Join(root, "test", "tokens", Physical, "*.md"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	all := make([]Report, 0, len(paths))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r, err := ParseReport(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
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
