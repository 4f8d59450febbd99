package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// flowNode is a node of a flow collection with its bytes: data[start:end].
type flowNode struct {
	kind       byte // '{', '[' or 's' for a scalar
	start, end int
	children   []flowNode // for '{': key, value, key, value …
	inner      int        // end of the last child, or after the bracket
}

var errFlow = errors.New("flow collection of an unknown shape")

// parseFlow reads the flow node at pos. It is lenient: the result of an edit is
// parsed again by a real parser.
func parseFlow(data []byte, pos, depth int) (flowNode, error) {
	pos = skipFlowSpace(data, pos)
	if pos >= len(data) || depth > 100 {
		return flowNode{}, errFlow
	}
	switch data[pos] {
	case '{', '[':
		return parseFlowList(data, pos, depth)
	case '"', '\'':
		end, err := quotedEnd(data, pos)
		return flowNode{kind: 's', start: pos, end: end}, err
	case '&', '*', '!', ']', '}', ',':
		return flowNode{}, errFlow
	}
	end := pos
	for i := pos; i < len(data); i++ {
		c := data[i]
		if c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '#' && i > pos && isSpace(data[i-1]) ||
			c == ':' && (i+1 == len(data) || isSpace(data[i+1]) || bytes.IndexByte([]byte(",[]{}"), data[i+1]) >= 0) {
			break
		}
		if !isSpace(c) {
			end = i + 1
		}
	}
	if end == pos {
		return flowNode{}, errFlow
	}
	return flowNode{kind: 's', start: pos, end: end}, nil
}

func parseFlowList(data []byte, pos, depth int) (flowNode, error) {
	n := flowNode{kind: data[pos], start: pos, inner: pos + 1}
	closing := data[pos] + 2 // ']' and '}'
	for pos++; ; {
		pos = skipFlowSpace(data, pos)
		if pos >= len(data) {
			return n, errFlow
		}
		if data[pos] == closing {
			n.end = pos + 1
			return n, nil
		}
		child, err := parseFlow(data, pos, depth+1)
		if err != nil {
			return n, err
		}
		n.children, pos = append(n.children, child), skipFlowSpace(data, child.end)
		if n.kind == '{' {
			if pos >= len(data) || data[pos] != ':' {
				return n, errFlow // also {a} and {? a : b}
			}
			if child, err = parseFlow(data, pos+1, depth+1); err != nil {
				return n, err
			}
			n.children, pos = append(n.children, child), skipFlowSpace(data, child.end)
		}
		n.inner = child.end
		if pos < len(data) && data[pos] == ',' {
			pos++
		} else if pos >= len(data) || data[pos] != closing {
			return n, errFlow
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skipFlowSpace skips white space and comments.
func skipFlowSpace(data []byte, pos int) int {
	for pos < len(data) {
		if data[pos] == '#' && pos > 0 && isSpace(data[pos-1]) {
			pos = lineEnd(data, pos)
		} else if isSpace(data[pos]) {
			pos++
		} else {
			break
		}
	}
	return pos
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
	return 0, errFlow
}

// text returns the string value of a scalar.
func (n flowNode) text(data []byte) (string, error) {
	if n.kind != 's' {
		return "", errFlow
	}
	var s string
	err := yaml.Unmarshal(data[n.start:n.end], &s)
	return s, err
}

// value returns the value of a key of a mapping, or nil.
func (n flowNode) value(data []byte, key string) (*flowNode, error) {
	var found *flowNode
	for i := 0; i+1 < len(n.children) && n.kind == '{'; i += 2 {
		k, err := n.children[i].text(data)
		if err != nil {
			return nil, err
		}
		if k == key {
			if found != nil {
				return nil, fmt.Errorf("the key %q is doubled", key)
			}
			found = &n.children[i+1]
		}
	}
	return found, nil
}

// section describes the flow node as a section's value.
func (n flowNode) section(data []byte) (*section, error) {
	s := &section{style: styleOther, colon: n.start, start: n.start, stop: n.end}
	switch n.kind {
	case 's':
		if raw := data[n.start:n.end]; nullText.Match(raw) {
			s.style = styleNull
		} else if text, err := n.text(data); err != nil {
			return nil, err
		} else if bytes.IndexByte(raw, '\n') < 0 {
			s.style, s.scalar = styleScalar, text
		}
	case '[':
		s.style = styleFlow
		for _, child := range n.children {
			name, err := child.value(data, "name")
			if err != nil {
				return nil, err
			}
			it := item{start: child.start, end: child.end}
			if name != nil {
				if it.name, err = name.text(data); err != nil {
					return nil, err
				}
			}
			s.items = append(s.items, it)
		}
	}
	return s, nil
}

// flowOutline is the outline of a document that is a flow mapping at pos.
func flowOutline(data []byte, pos int) (*outline, error) {
	root, err := parseFlow(data, pos, 0)
	if err != nil {
		return nil, err
	}
	if root.kind != '{' {
		return nil, errFlow
	}
	o := &outline{flow: true, end: root.inner, empty: len(root.children) == 0, sections: map[string]*section{}}
	for _, key := range []string{clusters, contexts, users, currentContext} {
		value, err := root.value(data, key)
		if err != nil {
			return nil, err
		}
		if value != nil {
			if o.sections[key], err = value.section(data); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}
