package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

// wide is the -o of tables with all columns, however narrow the terminal is.
const wide = "wide"

// format is the value of -o.
type format struct {
	value   string
	allowed []string
}

func (f *format) String() string { return f.value }
func (f *format) Type() string   { return "format" }

func (f *format) Set(s string) error {
	for _, a := range f.allowed {
		if s == a {
			f.value = s
			return nil
		}
	}
	return errors.New("use one of " + strings.Join(f.allowed, ", "))
}

// output adds -o to a command; more are formats beside json and yaml.
func output(c *cobra.Command, more ...string) *format {
	f := &format{allowed: append([]string{"json", "yaml"}, more...)}
	c.Flags().VarP(f, "output", "o", "output format: "+strings.Join(f.allowed, ", "))
	return f
}

// emit writes doc as -o wants it, or words where it was not given.
func (a *app) emit(f *format, doc any, words func(w *words)) error {
	var b []byte
	var err error
	switch f.value {
	case "json":
		b, err = jsonOf(doc, utf16Escape)
	case "yaml":
		b, err = yamlOf(doc)
	default:
		w := a.wordsAs(f)
		words(w)
		return w.flush()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.value, err)
	}
	_, err = a.Stdout.Write(b)
	return err
}

// jsonOf is doc in JSON. What a terminal would not show as it is, direction
// overrides above all, is escaped: documents are read on terminals too.
func jsonOf(doc any, escape func(rune) string) ([]byte, error) {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range string(b) { // beyond ASCII there are only strings
		if r < 0x7f || text.Visible(r) || unicode.Is(unicode.Zs, r) {
			out.WriteRune(r)
		} else {
			out.WriteString(escape(r))
		}
	}
	return []byte(out.String() + "\n"), nil
}

// yamlOf is doc in YAML; in its flow style, which is JSON's, if something in it
// must be escaped.
func yamlOf(doc any) ([]byte, error) {
	hidden := false
	flow, err := jsonOf(doc, func(r rune) string {
		hidden = true
		return fmt.Sprintf(`\U%08x`, r) // YAML 1.2, section 5.7
	})
	if err != nil || hidden {
		return flow, err
	}
	return yaml.Marshal(doc)
}

// utf16Escape is how JSON escapes a rune (RFC 8259, section 7).
func utf16Escape(r rune) string {
	if r < 0x10000 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	hi, lo := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
}

// words gathers text for people. All that goes in by its methods is cleaned:
// most of it was written by others.
type words struct {
	to io.Writer
	b  strings.Builder
	// widens tells that the command has -o wide, whole that this was asked for.
	widens, whole bool
}

func (a *app) out() *words { return &words{to: a.Stdout} }
func (a *app) err() *words { return &words{to: a.Stderr} }

// wordsAs is [app.out], with tables as -o wants them.
func (a *app) wordsAs(f *format) *words {
	w := a.out()
	w.widens, w.whole = slices.Contains(f.allowed, wide), f.value == wide
	return w
}

func (w *words) flush() error {
	_, err := io.WriteString(w.to, w.b.String())
	w.b.Reset()
	return err
}

// line adds one line.
func (w *words) line(format string, args ...any) {
	w.b.WriteString(text.Clean(fmt.Sprintf(format, args...)) + "\n")
}

// prose adds one line of words. On a terminal it breaks at spaces where it is wider, and what
// follows is indented by so many columns. A label in front of them stays as it is. A command
// that somebody may copy stays a [words.line].
func (w *words) prose(indent int, s string) {
	s = text.Clean(s)
	columns := w.columns()
	if columns <= indent || text.Width(s) <= columns {
		w.b.WriteString(s + "\n")
		return
	}
	lead := ""
	if indent > 0 {
		lead = text.Beginning(s, indent)
	}
	for _, l := range text.Wrap(s[len(lead):], columns-indent) {
		w.b.WriteString(lead + l + "\n")
		lead = strings.Repeat(" ", indent)
	}
}

// block adds lines.
func (w *words) block(s string) {
	if s != "" {
		w.b.WriteString(text.CleanLines(s) + "\n")
	}
}

// diffWidth is the width to which the lines of a difference are cut: certificates
// are kilobytes long.
const diffWidth = 120

// diff adds the lines of a difference, in colour where that can be seen.
func (w *words) diff(s string) {
	colour := w.coloured()
	for line := range strings.Lines(text.CleanLines(s)) {
		line = text.Truncate(strings.TrimSuffix(line, "\n"), diffWidth)
		if code := diffColour(line); colour && code != "" {
			line = "\x1b[" + code + "m" + line + "\x1b[m"
		}
		w.b.WriteString(line + "\n")
	}
}

// diffColour is the colour of a line, as git's are: what goes red, what comes
// green, where it is cyan.
func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		return "1"
	case strings.HasPrefix(line, "+"):
		return "32"
	case strings.HasPrefix(line, "-"):
		return "31"
	case strings.HasPrefix(line, "@@"):
		return "36"
	}
	return ""
}

// coloured tells whether colours are wanted and can be seen (no-color.org).
func (w *words) coloured() bool {
	return isTerminal(w.to) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is how wide the terminal is that the words go to; 0 is unknown, or does not matter.
func (w *words) columns() int {
	if w.whole {
		return 0
	}
	columns, _ := terminalSize(w.to)
	return columns
}

// terminalSize is the size of the terminal that stream is; 0 is unknown.
func terminalSize(stream any) (columns, rows int) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil { // no terminal
		return 0, 0
	}
	return columns, rows
}

// fields adds "name: value" lines, aligned, without those that are empty.
func (w *words) fields(pairs ...string) {
	widest := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			widest = max(widest, text.Width(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			w.field(text.Pad(pairs[i]+":", widest+1)+"  ", text.Clean(pairs[i+1]))
		}
	}
}

// field adds a value after its name. On a terminal it breaks at spaces; a value with a word that is wider than the
// room for it, such as a URI, stays a single line, so that it can be copied.
func (w *words) field(name, value string) {
	indent := text.Width(name)
	if widestWord(value) > w.columns()-indent {
		w.b.WriteString(name + value + "\n")
		return
	}
	w.prose(indent, name+value)
}

// widestWord is the width of the widest word of clean text.
func widestWord(s string) int {
	widest := 0
	for word := range strings.FieldsSeq(s) {
		widest = max(widest, text.Width(word))
	}
	return widest
}

// facts adds what is known of something, as [words.fields] does; what is bad or a
// reason to look closer is marked.
func (w *words) facts(facts []present.Fact) {
	pairs := make([]string, 0, 2*len(facts))
	for _, f := range facts {
		if f.Value != "" {
			pairs = append(pairs, f.Name, marked(f.Value, f.Level))
		}
	}
	w.fields(pairs...)
}

// sections adds what is known of something, in parts.
func (w *words) sections(all []present.Section) {
	for i, s := range all {
		if i > 0 {
			w.line("")
		}
		if s.Title != "" {
			w.line("%s:", s.Title)
		}
		for _, l := range s.Lines {
			lead := ""
			if len(s.Lines) > 1 && l.Level < present.Warn { // a single line is no list
				lead = "- "
			}
			words := lead + marked(l.Words, l.Level)
			if strings.Contains(words, "`") { // a command that somebody may copy
				w.line("%s", words)
			} else {
				w.prose(len(words)-len(l.Words), words)
			}
		}
		w.facts(s.Facts)
		w.listed(s.Table)
	}
}

// errorDoc is an error in JSON and YAML.
type errorDoc struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func errorDocOf(err error) *errorDoc {
	if err == nil {
		return nil
	}
	return &errorDoc{Message: ui.Message(err), Hint: ui.Hint(err)}
}

func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, ui.Usagef("%w", err)
	}
	return f, nil
}
