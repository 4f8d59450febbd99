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

const wide = "wide"

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

// output adds -o to a command, with more formats beside json and yaml.
func output(c *cobra.Command, more ...string) *format {
	f := &format{allowed: append([]string{"json", "yaml"}, more...)}
	c.Flags().VarP(f, "output", "o", "output format: "+strings.Join(f.allowed, ", "))
	return f
}

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

// jsonOf escapes what a terminal would interpret, direction overrides above all: people read
// documents on terminals too.
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

// yamlOf writes YAML's flow style, which is JSON, if something must be escaped.
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

// utf16Escape is the escape of a rune in JSON (RFC 8259, section 7).
func utf16Escape(r rune) string {
	if r < 0x10000 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	hi, lo := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
}

// words gathers text for people. Its methods clean all text, because most of it comes from others.
type words struct {
	to io.Writer
	b  strings.Builder
	// widens: the command has -o wide. whole: it was asked for.
	widens, whole bool
}

func (a *app) out() *words { return &words{to: a.Stdout} }
func (a *app) err() *words { return &words{to: a.Stderr} }

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

func (w *words) line(format string, args ...any) {
	w.b.WriteString(text.Clean(fmt.Sprintf(format, args...)) + "\n")
}

// prose adds a line of words, broken at spaces on a narrow terminal. Further lines are indented by
// so many columns. Commands to copy are a [words.line].
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

func (w *words) block(s string) {
	if s != "" {
		w.b.WriteString(text.CleanLines(s) + "\n")
	}
}

// diffWidth is where lines of a difference are cut: certificates are kilobytes long.
const diffWidth = 120

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

// coloured reports whether colours are wanted (no-color.org) and can be seen.
func (w *words) coloured() bool {
	return isTerminal(w.to) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is the width of the terminal, 0 if it is unknown or does not matter.
func (w *words) columns() int {
	if w.whole {
		return 0
	}
	columns, _ := terminalSize(w.to)
	return columns
}

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

// field adds a value after its name. A value with a word wider than its column, such as a URI,
// stays on one line, so that it can be copied.
func (w *words) field(name, value string) {
	indent := text.Width(name)
	if widestWord(value) > w.columns()-indent {
		w.b.WriteString(name + value + "\n")
		return
	}
	w.prose(indent, name+value)
}

func widestWord(s string) int {
	widest := 0
	for word := range strings.FieldsSeq(s) {
		widest = max(widest, text.Width(word))
	}
	return widest
}

func (w *words) facts(facts []present.Fact) {
	pairs := make([]string, 0, 2*len(facts))
	for _, f := range facts {
		if f.Value != "" {
			pairs = append(pairs, f.Name, marked(f.Value, f.Level))
		}
	}
	w.fields(pairs...)
}

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
