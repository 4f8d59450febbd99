package kubeconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// edit is one change of meaning: an item of a list set or removed, or the
// current context.
type edit struct {
	Section string
	Name    string // the item's name
	Body    object // the item's content; nil removes the item
	Value   string // current-context
}

// errFlow: a flow collection, such as JSON, would have to be edited. It is read alone.
var errFlow = fmt.Errorf("%w: it is JSON, or a list in it is in flow style", ErrUnsupported)

// splice replaces data[Start:End] with Text.
type splice struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  []byte `json:"text"`
}

// editText turns edits, at most one for each section, into splices in order.
func editText(data []byte, o *outline, edits []edit) ([]splice, error) {
	w := &writer{data: data, o: o, eol: "\n"}
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		w.eol = "\r\n"
	}
	for _, s := range o.sections {
		if s.style == styleBlock && s.dash > w.dash {
			w.dash = s.dash
		}
	}
	w.dash = max(w.dash, o.indent)
	if o.flow {
		return nil, errFlow
	}
	if o.empty {
		w.head()
	}
	for _, e := range edits {
		if err := w.edit(e); err != nil {
			return nil, err
		}
	}
	w.splices = append(w.splices, w.added...)
	slices.SortStableFunc(w.splices, func(a, b splice) int { return a.Start - b.Start })
	for i := 1; i < len(w.splices); i++ {
		if w.splices[i].Start < w.splices[i-1].End {
			return nil, fmt.Errorf("%w: internal: edits overlap", ErrUnsupported)
		}
	}
	return w.splices, nil
}

// applySplices returns data with the splices done; they are in order.
func applySplices(data []byte, splices []splice) []byte {
	size := len(data)
	for _, s := range splices {
		size += len(s.Text) - (s.End - s.Start)
	}
	out, pos := make([]byte, 0, max(size, 0)), 0
	for _, s := range splices {
		out = append(append(out, data[pos:s.Start]...), s.Text...)
		pos = s.End
	}
	return append(out, data[pos:]...)
}

type writer struct {
	data    []byte
	o       *outline
	eol     string
	dash    int // column of the dashes in new lists
	splices []splice
	added   []splice // the pairs: after all that is put at the same place
}

func (w *writer) put(start, end int, text string) {
	w.splices = append(w.splices, splice{start, end, []byte(text)})
}

// head begins a kubeconfig that has no keys yet.
func (w *writer) head() {
	w.pair("apiVersion: v1" + w.eol)
	w.pair("kind: Config" + w.eol)
}

// pair adds a top-level key with its value, which are whole lines.
func (w *writer) pair(block string) {
	if len(w.added) == 0 && w.o.end > 0 && w.data[w.o.end-1] != '\n' {
		block = w.eol + indentLines(block, w.o.indent)
	} else {
		block = indentLines(block, w.o.indent)
	}
	w.added = append(w.added, splice{w.o.end, w.o.end, []byte(block)})
}

func (w *writer) edit(e edit) error {
	s := w.o.sections[e.Section]
	if e.Section == currentContext {
		return w.setCurrent(s, e.Value)
	}
	it := s.find(e.Name)
	switch {
	case s != nil && s.style == styleFlow:
		return errFlow
	case s != nil && s.style != styleNone && s.style != styleBlock:
		return hint.Withf(fmt.Errorf("%w: %s is an alias, an anchor or not a list", ErrUnsupported, e.Section),
			"write the list %s plainly, or use another file with --kubeconfig", e.Section)
	case e.Body == nil && it == nil:
		return nil
	case e.Body == nil:
		w.remove(s, it)
		return nil
	}
	return w.setBlock(s, it, e)
}

func (w *writer) setCurrent(s *section, name string) error {
	switch {
	case s == nil && name == "":
	case s == nil:
		w.pair(currentContext + ": " + scalarYAML(name) + w.eol)
	case s.style == styleNone && s.start == s.stop:
		w.put(s.colon, s.colon, " "+scalarYAML(name))
	case s.style == styleNone, s.style == styleScalar:
		value := scalarYAML(name)
		if w.data[s.start] == '"' {
			value = quoteJSON(name)
		}
		w.put(s.start, s.stop, value)
	default:
		return fmt.Errorf("%w: %s is an alias or spans lines", ErrUnsupported, currentContext)
	}
	return nil
}

// setBlock writes an item as lines.
func (w *writer) setBlock(s *section, it *item, e edit) error {
	dash := w.dash
	if s != nil && s.style == styleBlock {
		dash = s.dash
	}
	text, err := blockItem(e, dash, w.eol)
	if err != nil {
		return err
	}
	switch {
	case s == nil:
		w.pair(e.Section + ":" + w.eol + outdent(text, w.o.indent))
	case it != nil:
		if it.end == len(w.data) && w.data[it.end-1] != '\n' {
			text = strings.TrimSuffix(text, w.eol)
		}
		w.put(it.start, it.end, text)
	case s.style == styleBlock:
		w.insertLines(s.stop, text)
	default: // null or []
		if s.stop > s.colon {
			w.put(s.colon, s.stop, "")
		}
		w.insertLines(lineEnd(w.data, s.stop), text)
	}
	return nil
}

// insertLines puts whole lines at pos, the start of a line or the end of the
// text.
func (w *writer) insertLines(pos int, text string) {
	if pos > 0 && w.data[pos-1] != '\n' {
		text = w.eol + text
	}
	w.put(pos, pos, text)
}

// remove takes an item out of its list.
func (w *writer) remove(s *section, it *item) {
	if len(s.items) == 1 {
		w.put(s.colon, s.colon, " []")
	}
	w.put(it.start, it.end, "")
}

func itemValue(e edit) object { return object{bodyKey[e.Section]: e.Body, "name": e.Name} }

// blockItem renders an item as lines with the dash at column dash.
func blockItem(e edit, dash int, eol string) (string, error) {
	out, err := yaml.Marshal(itemValue(e))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if line != "" {
			b.WriteString(strings.Repeat(" ", dash))
			if i == 0 {
				b.WriteString("- ")
			} else {
				b.WriteString("  ")
			}
		}
		b.WriteString(line)
		b.WriteString(eol)
	}
	return b.String(), nil
}

func indentWidth(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

func indentLines(text string, n int) string {
	if n == 0 {
		return text
	}
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if strings.TrimSpace(line) != "" {
			b.WriteString(strings.Repeat(" ", n))
		}
		b.WriteString(line)
	}
	return b.String()
}

// outdent undoes indentLines.
func outdent(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		lines[i] = line[min(n, indentWidth(line)):]
	}
	return strings.Join(lines, "")
}

func quoteJSON(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		return `""` // cannot happen: every string has a JSON form
	}
	return string(out)
}

// scalarYAML is s as a plain scalar if that is a string without doubt, else in
// double quotes.
func scalarYAML(s string) string {
	if plain, err := yaml.Marshal(s); err == nil && string(plain) == s+"\n" {
		return s
	}
	return quoteJSON(s)
}
