// Package tree holds the values of a YAML text as package kubeconfig's scanner finds them, and
// decodes them into client-go's structs. It knows nothing of kubeconfigs.
package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Node is a value of a YAML text, of which it has parts.
type Node struct {
	Kind    Kind
	text    []byte   // text of a scalar
	Members []Member // members of a mapping or sequence
}

// Member is a value with its key, which is empty in a sequence.
type Member struct {
	Key []byte
	Node
}

// Kind is what a node is.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Boolean
	String
	Sequence
	Mapping
)

// MaxKeys is the most keys that a mapping may have to be read into a Node: they are
// compared with each other.
const MaxKeys = 64

// Add appends a member, null at first, under key if n is a mapping. It tells whether
// that is possible.
func (n *Node) Add(key []byte) bool {
	if n.Kind == Mapping {
		if len(n.Members) == MaxKeys {
			return false
		}
		for i := range n.Members {
			if bytes.Equal(n.Members[i].Key, key) {
				return false
			}
		}
	}
	if len(n.Members) == cap(n.Members) {
		n.Members = append(n.Members, Member{Key: key})
		return true
	}
	n.Members = n.Members[:len(n.Members)+1] // the list of an element that was taken
	m := &n.Members[len(n.Members)-1]
	m.Key, m.Node = key, Node{Members: m.Members[:0]}
	return true
}

// Last is the member that was added last.
func (n *Node) Last() *Node { return &n.Members[len(n.Members)-1].Node }

// Set makes n the scalar (or empty collection) that value is. text is its value if it
// is a string for every parser, else nil. It tells whether value is of a kind that is
// read.
func (n *Node) Set(value, text []byte) bool {
	if text != nil {
		n.Kind, n.text = String, text
		return true
	}
	switch string(value) {
	case "null", "~":
	case "true", "false":
		n.Kind, n.text = Boolean, value
	case "[]":
		n.Kind = Sequence
	case "{}":
		n.Kind = Mapping
	default:
		return false
	}
	return true
}

// appendJSON appends n to b as encoding/json writes it.
func (n *Node) appendJSON(b []byte) ([]byte, error) {
	switch n.Kind {
	case Null:
		return append(b, "null"...), nil
	case Boolean:
		return append(b, n.text...), nil
	case String:
		text, err := json.Marshal(string(n.text))
		return append(b, text...), err
	}
	open, end := byte('['), byte(']')
	if n.Kind == Mapping {
		open, end = '{', '}'
		slices.SortFunc(n.Members, func(a, b Member) int { return bytes.Compare(a.Key, b.Key) })
	}
	b = append(b, open)
	for i := range n.Members {
		if i > 0 {
			b = append(b, ',')
		}
		m := &n.Members[i]
		if n.Kind == Mapping {
			b = append(append(append(b, '"'), m.Key...), `":`...) // keys have nothing to escape
		}
		var err error
		if b, err = m.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}

// Decoder decodes nodes into the structs of client-go.
type Decoder struct {
	fields  map[reflect.Type]map[string]int // numbers of fields, by their names in JSON
	strings map[string]string               // those that were read: most are in every entry
	json    []byte                          // room for an extension
	// The base64 that was read last, and what it says: entries of one bridge have one CA.
	base64, bytes []byte
}

// NewDecoder returns a Decoder.
func NewDecoder() *Decoder {
	return &Decoder{fields: map[reflect.Type]map[string]int{}, strings: map[string]string{}}
}

// Fields are the numbers of the fields of the struct type t, by their names in JSON.
func (d *Decoder) Fields(t reflect.Type) map[string]int {
	names := d.fields[t]
	if names == nil {
		names = make(map[string]int, t.NumField())
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names[name] = i
			}
		}
		d.fields[t] = names
	}
	return names
}

// Append decodes n as a further element of v. It tells whether v is a slice of such.
func (d *Decoder) Append(n *Node, v reflect.Value) bool {
	if v.Kind() != reflect.Slice {
		return false
	}
	v.Grow(1)
	v.SetLen(v.Len() + 1)
	last := v.Index(v.Len() - 1)
	last.SetZero()
	return d.Decode(n, last)
}

// Decode sets v, which is zero, to n. What v has no field for is ignored, and null
// leaves v as it is, as in JSON. It tells whether n is of v's kind.
func (d *Decoder) Decode(n *Node, v reflect.Value) bool {
	if n.Kind == Null {
		return true
	}
	if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
		text, err := n.appendJSON(d.json[:0])
		d.json, v.Addr().Interface().(*runtime.RawExtension).Raw = text, bytes.Clone(text)
		return err == nil
	}
	switch kind := v.Kind(); {
	case kind == reflect.String && n.Kind == String:
		text, ok := d.strings[string(n.text)]
		if !ok {
			text = string(n.text)
			d.strings[text] = text
		}
		v.SetString(text)
	case kind == reflect.Bool && n.Kind == Boolean:
		v.SetBool(string(n.text) == "true")
	case kind == reflect.Slice && n.Kind == String && v.Type().Elem().Kind() == reflect.Uint8:
		if d.bytes == nil || !bytes.Equal(d.base64, n.text) {
			b, err := base64.StdEncoding.AppendDecode([]byte{}, n.text)
			if err != nil {
				return false
			}
			d.base64, d.bytes = n.text, slices.Clip(b)
		}
		v.SetBytes(d.bytes)
	case kind == reflect.Slice && n.Kind == Sequence:
		v.Grow(max(len(n.Members), 1)) // an empty list is not nil
		v.SetLen(0)
		for i := range n.Members {
			if !d.Append(&n.Members[i].Node, v) {
				return false
			}
		}
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.Decode(n, v.Elem())
	case kind == reflect.Map && n.Kind == Mapping:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Members)))
		for i := range n.Members {
			value := reflect.New(v.Type().Elem()).Elem()
			if !d.Decode(&n.Members[i].Node, value) {
				return false
			}
			v.SetMapIndex(reflect.ValueOf(string(n.Members[i].Key)), value)
		}
	case kind == reflect.Struct && n.Kind == Mapping:
		fields := d.Fields(v.Type())
		for i := range n.Members {
			field, ok := fields[string(n.Members[i].Key)]
			if ok && !d.Decode(&n.Members[i].Node, v.Field(field)) {
				return false
			}
		}
	default:
		return false
	}
	return true
}
