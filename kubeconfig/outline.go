package kubeconfig

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// The top-level keys that are edited.
const (
	clusters       = "clusters"
	contexts       = "contexts"
	users          = "users"
	currentContext = "current-context"
)

// bodyKey is the key of an item that holds its body.
var bodyKey = map[string]string{clusters: "cluster", contexts: "context", users: "user"}

// outline says where in a kubeconfig's text the parts are that an edit may
// touch. Offsets are bytes.
type outline struct {
	flow     bool // the document is a flow mapping, such as JSON: the rest is not known
	indent   int  // column of the top-level keys
	end      int  // end of the last content line
	empty    bool // no top-level key
	sections map[string]*section
}

type style int

const (
	styleNone   style = iota // no value, null, ~ or []
	styleBlock               // block sequence
	styleFlow                // flow sequence with elements: not edited
	styleScalar              // one-line scalar (current-context)
	styleOther               // alias, anchor, multi-line scalar: not edited
)

// section is one top-level key and its value.
type section struct {
	style style
	colon int // after the key's colon
	start int // start of the value (scalar, explicit null, [])
	stop  int // end of the value; block: end of the last content line
	dash  int // block: column of the dashes
	items []item
}

// item is one element of a block list: whole lines.
type item struct {
	name       string
	start, end int
}

func (s *section) find(name string) *item {
	if s == nil {
		return nil
	}
	for i := range s.items {
		if s.items[i].name == name {
			return &s.items[i]
		}
	}
	return nil
}

// locate finds the outline of data.
func locate(data []byte) (*outline, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%w: not UTF-8 text", ErrUnsupported)
	}
	return parseOutline(data)
}

// contentEnd returns the end of the last line in data[from:to] that is content:
// not blank, and not a comment at column indent or left of it (such a comment
// belongs to what follows). from is the start of a content line.
func contentEnd(data []byte, from, to, indent int) int {
	end := from
	for pos := from; pos < to; {
		next := lineEnd(data, pos)
		line := bytes.TrimLeft(data[pos:next], " ")
		column := next - pos - len(line)
		line = bytes.TrimSpace(line)
		if pos == from || len(line) > 0 && (line[0] != '#' || column > indent) {
			end = next
		}
		pos = next
	}
	return min(end, to)
}

// lineEnd is the offset after the line break of the line that pos is in.
func lineEnd(data []byte, pos int) int {
	if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(data)
}

// lineStart is the offset of the first byte of the line that pos is in.
func lineStart(data []byte, pos int) int {
	return bytes.LastIndexByte(data[:pos], '\n') + 1
}
