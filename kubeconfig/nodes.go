package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseOutline finds the outline with a YAML parser.
func parseOutline(data []byte) (*outline, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(&doc) {
		return &outline{empty: true, end: len(data), sections: map[string]*section{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParse, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%w: not a mapping", ErrParse)
	}
	root := doc.Content[0]
	p := &positions{data: data}
	p.index()
	if root.Style&yaml.FlowStyle != 0 {
		return &outline{flow: true}, nil
	}
	o, err := p.outline(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return o, nil
}

func isNull(doc *yaml.Node) bool {
	return doc.Kind == 0 || len(doc.Content) == 1 && doc.Content[0].Kind == yaml.ScalarNode &&
		doc.Content[0].Tag == "!!null"
}

// positions turns the parser's lines and columns (in characters, from 1) into
// offsets.
type positions struct {
	data  []byte
	lines []int // offset of each line
}

// index finds the lines as YAML 1.1 counts them.
func (p *positions) index() {
	p.lines = []int{0}
	for i := 0; i < len(p.data); {
		r, n := utf8.DecodeRune(p.data[i:])
		i += n
		if r == '\r' && i < len(p.data) && p.data[i] == '\n' {
			i++
		}
		if r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029 {
			p.lines = append(p.lines, i)
		}
	}
}

func (p *positions) at(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(p.lines) {
		return len(p.data)
	}
	pos := p.lines[n.Line-1]
	if n.Line == 1 && bytes.HasPrefix(p.data, []byte("\ufeff")) {
		pos += 3
	}
	for range n.Column - 1 {
		if pos >= len(p.data) {
			break
		}
		_, w := utf8.DecodeRune(p.data[pos:])
		pos += w
	}
	return pos
}

// lineStart is the start of the line that pos is in, after a byte order mark.
func (p *positions) lineStart(pos int) int {
	start := lineStart(p.data, pos)
	if start == 0 && bytes.HasPrefix(p.data, []byte("\ufeff")) {
		return 3
	}
	return start
}

// outline reads the block mapping root.
func (p *positions) outline(root *yaml.Node) (*outline, error) {
	o := &outline{sections: map[string]*section{}, empty: len(root.Content) == 0}
	limit := p.documentEnd(root)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		start, stop := p.at(key), limit
		column := start - p.lineStart(start)
		if i == 0 {
			o.indent = column
		}
		if i+2 < len(root.Content) {
			stop = lineStart(p.data, p.at(root.Content[i+2]))
		}
		o.end = contentEnd(p.data, lineStart(p.data, start), stop, o.indent)
		switch key.Value {
		case clusters, contexts, users, currentContext:
		default:
			continue
		}
		if o.sections[key.Value] != nil {
			return nil, fmt.Errorf("the key %q is doubled", key.Value)
		}
		if start >= stop || len(bytes.TrimLeft(p.data[lineStart(p.data, start):start], " \ufeff")) > 0 {
			return nil, fmt.Errorf("the key %q does not begin its line", key.Value)
		}
		s, err := p.section(key, value, stop, o.indent)
		if err != nil {
			return nil, err
		}
		o.sections[key.Value] = s
	}
	return o, nil
}

// documentEnd is the offset of the marker that ends the first document, or of
// the end of the text.
func (p *positions) documentEnd(root *yaml.Node) int {
	for pos := lineEnd(p.data, p.at(root)); pos < len(p.data); pos = lineEnd(p.data, pos) {
		line := p.data[pos:]
		if marker := bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")); marker &&
			(len(line) == 3 || isSpace(line[3])) {
			return pos
		}
	}
	return len(p.data)
}

func (p *positions) section(key, value *yaml.Node, stop, indent int) (*section, error) {
	colon, err := p.colon(key)
	if err != nil {
		return nil, err
	}
	s := &section{style: styleOther, colon: colon, start: colon, stop: colon}
	if value.Anchor != "" || value.Style&yaml.TaggedStyle != 0 {
		return s, nil
	}
	at := p.at(value)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		s.style = styleNone
		if value.Value != "" {
			s.start, s.stop = at, at+len(value.Value)
		}
	case value.Kind == yaml.ScalarNode && value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0:
		s.start, s.stop = at, at+len(value.Value)
		if value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			if s.stop, err = quotedEnd(p.data, at); err != nil {
				return nil, err
			}
		} else if s.stop > len(p.data) || string(p.data[at:s.stop]) != value.Value {
			return s, nil // a plain scalar over several lines
		}
		if bytes.IndexByte(p.data[colon:s.stop], '\n') < 0 {
			s.style = styleScalar
		}
	case value.Kind == yaml.AliasNode && key.Value == currentContext:
		s.style, s.start, s.stop = styleScalar, at, at+1+len(value.Value)
	case value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle != 0:
		s.style, s.start = styleFlow, at
		inside, _, closed := bytes.Cut(p.data[at+1:], []byte("]"))
		if len(value.Content) == 0 && closed && len(bytes.TrimSpace(inside)) == 0 {
			s.style, s.stop = styleNone, at+len("[]")+len(inside)
		}
	case value.Kind == yaml.SequenceNode:
		return p.list(s, value, stop)
	}
	return s, nil
}

// colon is the offset after the colon that ends the key.
func (p *positions) colon(key *yaml.Node) (int, error) {
	pos := p.at(key)
	if pos < len(p.data) && (p.data[pos] == '"' || p.data[pos] == '\'') {
		end, err := quotedEnd(p.data, pos)
		if err != nil {
			return 0, err
		}
		pos = end
	} else {
		pos += len(key.Value)
	}
	for pos < len(p.data) && p.data[pos] == ' ' {
		pos++
	}
	if pos >= len(p.data) || p.data[pos] != ':' {
		return 0, fmt.Errorf("the key %q has an unusual form", key.Value)
	}
	return pos + 1, nil
}

// list reads a block sequence.
func (p *positions) list(s *section, value *yaml.Node, stop int) (*section, error) {
	s.style = styleBlock
	first := lineStart(p.data, p.at(value))
	s.dash = p.at(value) - first
	for _, n := range value.Content {
		start := lineStart(p.data, p.at(n))
		for !p.isDashLine(start, s.dash) {
			if start <= first {
				return nil, errors.New("a list element without its dash")
			}
			start = lineStart(p.data, start-1)
		}
		s.items = append(s.items, item{name: nodeName(n, 0), start: start})
	}
	for i := range s.items {
		next := stop
		if i+1 < len(s.items) {
			next = s.items[i+1].start
		}
		if next <= s.items[i].start {
			return nil, errors.New("two list elements on one line")
		}
		s.items[i].end = contentEnd(p.data, s.items[i].start, next, s.dash)
		s.stop = s.items[i].end
	}
	return s, nil
}

func (p *positions) isDashLine(start, dash int) bool {
	line := p.data[start:lineEnd(p.data, start)]
	return len(line) > dash+1 && line[dash] == '-' && isSpace(line[dash+1]) && len(bytes.TrimLeft(line[:dash], " ")) == 0
}

func quotedEnd(data []byte, pos int) (int, error) {
	quote := data[pos]
	for i := pos + 1; i < len(data); i++ {
		switch {
		case quote == '"' && data[i] == '\\':
			i++
		case data[i] == quote && quote == '\'' && i+1 < len(data) && data[i+1] == quote:
			i++
		case data[i] == quote:
			return i + 1, nil
		}
	}
	return 0, errors.New("a quoted text without its end")
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// nodeName is the value of the key name, through aliases and merge keys.
func nodeName(n *yaml.Node, depth int) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode || depth > 10 {
		return ""
	}
	merged := ""
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Value == "name":
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			return value.Value
		case key.Tag == "!!merge" && merged == "":
			merged = nodeName(value, depth+1)
		}
	}
	return merged
}
