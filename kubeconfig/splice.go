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
	pairs   int // top-level pairs added
	splices []splice
	added   []splice // the pairs: after all that is put at the same place
}

func (w *writer) put(start, end int, text string) {
	w.splices = append(w.splices, splice{start, end, []byte(text)})
}

// head begins a kubeconfig that has no keys yet.
func (w *writer) head() {
	w.pair("apiVersion", `"v1"`, "apiVersion: v1"+w.eol)
	w.pair("kind", `"Config"`, "kind: Config"+w.eol)
}

// pair adds a top-level key: value in JSON to a flow document, else block,
// which is whole lines.
func (w *writer) pair(key, value, block string) {
	if w.o.flow {
		comma := ", "
		if w.o.empty && w.pairs == 0 {
			comma = ""
		} else if start := lineStart(w.data, w.o.end); !w.o.empty && start > 0 && w.ownLine(start) {
			comma = "," + w.eol + string(indentOf(w.data[start:]))
		}
		w.pairs++
		w.added = append(w.added, splice{w.o.end, w.o.end, []byte(comma + quoteJSON(key) + ": " + value)})
		return
	}
	if w.pairs++; w.pairs == 1 && w.o.end > 0 && w.data[w.o.end-1] != '\n' {
		block = w.eol + indentLines(block, w.o.indent)
	} else {
		block = indentLines(block, w.o.indent)
	}
	w.added = append(w.added, splice{w.o.end, w.o.end, []byte(block)})
}

// ownLine reports whether the line at start is a line of the root's pairs in a
// flow document that is spread over lines, as json.Indent writes it.
func (w *writer) ownLine(start int) bool {
	rest := bytes.TrimLeft(w.data[start:], " \t")
	return len(rest) > 0 && (rest[0] == '"' || rest[0] == ']' || rest[0] == '}')
}

func (w *writer) edit(e edit) error {
	s := w.o.sections[e.Section]
	if e.Section == currentContext {
		return w.setCurrent(s, e.Value)
	}
	it := s.find(e.Name)
	switch {
	case s != nil && s.style != styleNull && s.style != styleBlock && s.style != styleFlow:
		return hint.Withf(fmt.Errorf("%w: %s is an alias, an anchor or not a list", ErrUnsupported, e.Section),
			"write the list %s plainly, or use another file with --kubeconfig", e.Section)
	case e.Body == nil && it == nil:
		return nil
	case e.Body == nil:
		w.remove(s, it)
		return nil
	}
	if w.o.flow || s != nil && s.style == styleFlow && len(s.items) > 0 {
		return w.setFlow(s, it, e)
	}
	return w.setBlock(s, it, e)
}

func (w *writer) setCurrent(s *section, name string) error {
	quoted := quoteJSON(name)
	switch {
	case s == nil && name == "":
	case s == nil:
		w.pair(currentContext, quoted, currentContext+": "+scalarYAML(name)+w.eol)
	case s.style == styleNull && s.start == s.stop && !w.o.flow:
		w.put(s.colon, s.colon, " "+scalarYAML(name))
	case s.style == styleNull, s.style == styleScalar:
		if !w.o.flow {
			quoted = scalarYAML(name)
			if q := w.data[s.start]; q == '"' {
				quoted = quoteJSON(name)
			}
		}
		w.put(s.start, s.stop, quoted)
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
		w.pair(e.Section, "", e.Section+":"+w.eol+outdent(text, w.o.indent))
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

// setFlow writes an item as JSON, on one line or in the manner of the item
// before it.
func (w *writer) setFlow(s *section, it *item, e edit) error {
	value, err := json.Marshal(itemValue(e))
	if err != nil {
		return err
	}
	switch {
	case s == nil:
		w.pair(e.Section, w.list(value, w.o.end), "")
	case it != nil:
		w.put(it.start, it.end, w.pretty(value, it))
	case len(s.items) > 0:
		w.appendFlow(s, value)
	case s.start == s.stop:
		w.put(s.colon, s.colon, " "+w.list(value, s.colon))
	default:
		w.put(s.start, s.stop, w.list(value, s.start))
	}
	return nil
}

// appendFlow adds an item to a flow list that has some: in the same line, or on
// lines of its own if the items and the bracket have theirs.
func (w *writer) appendFlow(s *section, value []byte) {
	last := s.items[len(s.items)-1]
	trailing := bytes.IndexByte(w.data[skipFlowSpace(w.data, last.end):s.stop], ',') == 0
	start, bracket := lineStart(w.data, last.start), lineStart(w.data, s.stop)
	text := w.pretty(value, &last)
	if bracket <= last.end || len(bytes.TrimSpace(w.data[start:last.start])) > 0 ||
		len(bytes.TrimSpace(w.data[bracket:s.stop])) > 1 {
		w.put(last.end, last.end, ", "+text)
		return
	}
	text = string(w.data[start:last.start]) + text
	if trailing {
		text += ","
	} else {
		w.put(last.end, last.end, ",")
	}
	w.put(bracket, bracket, text+w.eol)
}

// list is a flow list of one item, spread over lines if the line that pos is in
// is one of a spread-out document.
func (w *writer) list(value []byte, pos int) string {
	out := "[" + string(value) + "]"
	if start := lineStart(w.data, pos); w.o.flow && start > 0 && w.ownLine(start) {
		if base := indentOf(w.data[start:]); len(base) > 0 {
			var b bytes.Buffer
			if json.Indent(&b, []byte(out), string(base), string(base)) == nil {
				return strings.ReplaceAll(b.String(), "\n", w.eol)
			}
		}
	}
	return out
}

// pretty spreads value over lines if the item like is spread.
func (w *writer) pretty(value []byte, like *item) string {
	text := w.data[like.start:like.end]
	i := bytes.IndexByte(text, '\n')
	if i < 0 {
		return string(value)
	}
	base := indentOf(w.data[lineStart(w.data, like.start):])
	step := bytes.TrimPrefix(indentOf(text[i+1:]), base)
	var out bytes.Buffer
	if json.Indent(&out, value, string(base), string(step)) != nil {
		return string(value)
	}
	return strings.ReplaceAll(out.String(), "\n", w.eol)
}

// remove takes an item out of its list.
func (w *writer) remove(s *section, it *item) {
	if s.style == styleBlock {
		if len(s.items) == 1 {
			w.put(s.colon, s.colon, " []")
		}
		w.put(it.start, it.end, "")
		return
	}
	start, end := it.start, it.end
	for i := range s.items {
		switch {
		case s.items[i].start != it.start:
		case i+1 < len(s.items):
			end = s.items[i+1].start
		case i > 0:
			start = s.items[i-1].end
		}
	}
	w.put(start, end, "")
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

// indentOf is the white space that b begins with.
func indentOf(b []byte) []byte { return b[:len(b)-len(bytes.TrimLeft(b, " \t"))] }

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
	if length, text, ok := plainScalar(s); ok && length == len(s) && text {
		return s
	}
	return quoteJSON(s)
}

func plainScalar(s string) (length int, isText, ok bool) {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) ||
		strings.ContainsAny(s[:1], `"'[{`) || s != strings.TrimSpace(s) {
		return 0, false, false
	}
	length, text, ok := scalarEnd([]byte(s))
	return length, text != nil, ok
}
