package kubeconfig

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig/internal/tree"
)

// scan finds the outline of the kubeconfigs that kubectl and the cloud tools
// write, in one pass. It knows a small part of YAML and gives up (false) at the
// first line outside of it, so that what it accepts means the same to every
// YAML parser: block collections, one key or dash-key per line, scalars that
// end on their line, literal blocks, ASCII. A fuzz test holds it against
// parseOutline.
func scan(data []byte) (*outline, bool) {
	s := newScanner(data)
	if !s.all() {
		return nil, false
	}
	s.closeItem()
	if s.o.empty {
		s.o.end = len(data)
	}
	return s.o, true
}

// scanTree is scan for the values. It knows less: no block scalars, numbers or dates,
// no key twice in a mapping, no mapping of more than [tree.MaxKeys]. The elements of the
// lists at the top go to take, under the list's key, and are null in the tree: take tells
// whether to go on, and keeps nothing of the element.
func scanTree(data []byte, take func(key []byte, element *tree.Node) bool) (*tree.Node, bool) {
	s := newScanner(data)
	s.tree, s.take = &tree.Node{}, take
	ok := s.all()
	s.closeItem()
	return s.tree, ok && !s.refused
}

func newScanner(data []byte) *scanner {
	return &scanner{data: data, o: &outline{sections: map[string]*section{}, empty: true}, block: -1}
}

// all takes every line.
func (s *scanner) all() bool {
	for pos := 0; pos < len(s.data); {
		next := lineEnd(s.data, pos)
		if !s.line(pos, next) || s.refused {
			return false
		}
		pos = next
	}
	return true
}

type collection struct {
	seq  bool
	col  int
	node *tree.Node // nil if the values are not wanted
}

type scanner struct {
	data    []byte
	o       *outline
	stack   []collection
	pending bool // the last key has no value yet
	block   int  // column that a literal block's lines must be right of, or -1
	current *section
	named   bool // the current item's name was seen
	end     int  // end of the current item's last content line
	started bool // content was seen

	// See scanTree; without the values, tree is nil.
	tree    *tree.Node
	take    func(key []byte, element *tree.Node) bool
	refused bool
}

func (s *scanner) line(pos, next int) bool {
	text := s.data[pos:next]
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\r' || c >= 0x7f {
			return false
		}
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if bytes.IndexByte(text, '\r') >= 0 {
		return false
	}
	rest := bytes.TrimLeft(text, " ")
	col := len(text) - len(rest)
	if s.block >= 0 {
		if len(rest) == 0 {
			return true
		}
		if col > s.block {
			s.content(next)
			return true
		}
		s.block = -1
	}
	switch {
	case len(rest) == 0:
		return true
	case rest[0] == '#':
		if s.started && col > 0 {
			s.o.end = next
		}
		if s.current != nil && s.current.style == styleBlock && col > s.current.dash {
			s.end = next
		}
		return true
	case !s.started && string(rest) == "---" && col == 0:
		s.started = true
		s.o.end = next
		return true
	}
	return s.structure(pos, next, col, rest)
}

// content notes that the line ending at next is content.
func (s *scanner) content(next int) {
	s.o.end = next
	s.end = next
}

// structure takes a line that begins a key or a list element at column col.
func (s *scanner) structure(pos, next, col int, rest []byte) bool {
	s.started = true
	first := true
	for isDash(rest) {
		if !s.open(collection{seq: true, col: col}, first) {
			return false
		}
		if len(s.stack) == 2 { // an element of a top-level list
			s.closeItem()
			if s.current == nil || s.current.style == styleOther || s.current.style == styleScalar ||
				s.current.start > s.current.colon {
				return false
			}
			s.current.style, s.current.dash = styleBlock, col
			s.current.items = append(s.current.items, item{start: pos})
		}
		if s.tree != nil {
			s.top().Add(nil)
		}
		s.pending, first = false, false
		trimmed := bytes.TrimLeft(rest[1:], " ")
		if len(trimmed) == 0 || trimmed[0] == '#' {
			return false // a dash on a line of its own
		}
		col += len(rest) - len(trimmed)
		rest = trimmed
	}
	key, value, ok := splitKey(rest)
	if !ok {
		if first {
			return false
		}
		length, text, ok := scalarEnd(rest)
		s.content(next)
		return ok && rest[0] != '|' && rest[0] != '>' && (s.tree == nil || s.top().Last().Set(rest[:length], text))
	}
	if !s.open(collection{col: col}, first) {
		return false
	}
	return s.key(pos, next, col, key, value, len(rest)-len(value))
}

// open makes c the innermost collection: an enclosing one goes on, or a new
// one begins as the value of the key (or in the list element) before it. first
// is false for what follows a dash on the same line.
func (s *scanner) open(c collection, first bool) bool {
	if !first {
		s.push(c)
		return true
	}
	if len(s.stack) == 0 {
		if c.seq || c.col != 0 {
			return false
		}
		s.push(c)
		return true
	}
	top := s.stack[len(s.stack)-1]
	if s.pending && (c.col > top.col || c.seq && c.col == top.col) {
		if len(s.stack) == 1 && !c.seq {
			s.current.style = styleOther
		}
		s.push(c)
		return true
	}
	for len(s.stack) > 0 {
		top = s.stack[len(s.stack)-1]
		if top.col == c.col && top.seq == c.seq {
			return true
		}
		if top.col < c.col {
			return false
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
	return false
}

// push makes c, which is new, the innermost collection: it is the value of the last
// key or list element.
func (s *scanner) push(c collection) {
	if s.tree != nil {
		c.node = s.tree
		if len(s.stack) > 0 {
			c.node = s.top().Last()
		}
		c.node.Kind = tree.Mapping
		if c.seq {
			c.node.Kind = tree.Sequence
		}
	}
	s.stack = append(s.stack, c)
}

// top is the innermost collection's node.
func (s *scanner) top() *tree.Node { return s.stack[len(s.stack)-1].node }

// key takes `key: value` at column col; value starts offset bytes after the
// key.
func (s *scanner) key(pos, next, col int, key, value []byte, offset int) bool {
	depth := len(s.stack)
	if depth == 1 {
		s.closeItem()
		if s.o.sections[string(key)] != nil {
			return false // doubled
		}
		s.current = &section{style: styleNone, colon: pos + col + len(key) + 1}
		s.current.start, s.current.stop = s.current.colon, s.current.colon
		s.o.sections[string(key)] = s.current
		s.o.empty = false
	}
	s.content(next)
	if s.tree != nil && !s.top().Add(key) {
		return false
	}
	s.pending = len(value) == 0 || value[0] == '#'
	if s.pending {
		return true
	}
	if value[0] == '|' || value[0] == '>' {
		if depth == 3 && string(key) == "name" && s.stack[1].seq {
			return false // an item's name in several lines
		}
		s.block = col
		if depth == 1 {
			s.current.style = styleOther
		}
		return s.tree == nil && blockHeader.Match(value)
	}
	length, text, ok := scalarEnd(value)
	if !ok || s.tree != nil && !s.top().Last().Set(value[:length], text) {
		return false
	}
	switch {
	case depth == 1:
		s.current.start = pos + col + offset
		s.current.stop = s.current.start + length
		switch {
		case text != nil:
			s.current.style, s.current.scalar = styleScalar, string(text)
		case value[0] == '[', nullText.Match(value[:length]):
			s.current.style = styleNone
		default:
			s.current.style = styleOther
		}
	case depth == 3 && string(key) == "name" && s.stack[1].seq && len(s.current.items) > 0:
		if text == nil || s.named {
			return false
		}
		s.named = true
		s.current.items[len(s.current.items)-1].name = string(text)
	}
	return true
}

// closeItem ends the list element that was being read.
func (s *scanner) closeItem() {
	if s.current != nil && len(s.current.items) > 0 {
		s.current.items[len(s.current.items)-1].end = s.end
		s.current.stop = s.end
		if s.tree != nil {
			list := &s.tree.Members[len(s.tree.Members)-1]
			s.refused = s.refused || !s.take(list.Key, list.Last())
			list.Kind, list.Members, s.current.items = tree.Null, list.Members[:0], s.current.items[:0]
		}
	}
	s.named = false
}

func isDash(b []byte) bool {
	return len(b) > 1 && b[0] == '-' && b[1] == ' ' || len(b) == 1 && b[0] == '-'
}

var (
	blockHeader = regexp.MustCompile(`^[|>][-+]? *$`)
	nullText    = regexp.MustCompile(`^(null|Null|NULL|~)$`)
)

// notString tells whether some YAML schema reads a plain scalar as something other
// than a string.
func notString(b []byte) bool {
	if c := b[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		return number(b)
	}
	for _, word := range [...]string{"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", "<<", "="} {
		if len(word) == len(b) && strings.EqualFold(word, string(b)) {
			return true
		}
	}
	return false
}

// number tells whether some YAML schema may read b as a number or date. Such has a digit, unless
// it is infinite or none: --flag is a string.
func number(b []byte) bool {
	digits, letters := false, false
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			letters = true
		case c != '-' && c != '+' && c != '.' && c != ':':
			return false
		}
	}
	b = bytes.TrimLeft(b, "-+")
	return digits || !letters || strings.EqualFold(string(b), ".inf") || strings.EqualFold(string(b), ".nan")
}

// splitKey takes `key: value` apart; key is a plain scalar without doubt.
func splitKey(b []byte) (key, value []byte, ok bool) {
	for i, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case i > 0 && (c == '-' || c == '.' || c == '/' || c >= '0' && c <= '9'):
		case i > 0 && c == ':' && (i+1 == len(b) || b[i+1] == ' '):
			return b[:i], bytes.TrimLeft(b[i+1:], " "), !notString(b[:i])
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// scalarEnd measures the scalar (or empty flow collection) that v begins with
// and that ends on this line. text is its value if it is a string whose value
// is its text, else nil.
func scalarEnd(v []byte) (length int, text []byte, ok bool) {
	end := func(n int) bool {
		rest := bytes.TrimLeft(v[n:], " ")
		return len(rest) == 0 || rest[0] == '#' && len(rest) < len(v)-n
	}
	switch v[0] {
	case '[', '{':
		if bytes.HasPrefix(v, []byte("[]")) || bytes.HasPrefix(v, []byte("{}")) {
			return 2, nil, end(2)
		}
		return 0, nil, false
	case '"', '\'':
		n := bytes.IndexByte(v[1:], v[0])
		if n < 0 || bytes.IndexByte(v[1:1+n], '\\') >= 0 && v[0] == '"' {
			return 0, nil, false
		}
		return n + 2, v[1 : 1+n], end(n + 2)
	case '&', '*', '!', '%', '@', '`', ',', ']', '}', '|', '>', '#':
		return 0, nil, false
	case '-', '?', ':':
		if len(v) == 1 || v[1] == ' ' {
			return 0, nil, false
		}
	}
	n := len(v)
	if i := bytes.Index(v, []byte(" #")); i >= 0 {
		n = i
	}
	plain := bytes.TrimRight(v[:n], " ")
	if bytes.Contains(plain, []byte(": ")) || plain[len(plain)-1] == ':' {
		return 0, nil, false
	}
	if notString(plain) {
		return len(plain), nil, true
	}
	return len(plain), plain, true
}
