package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"
	apiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// parse reads a kubeconfig as [clientcmd.Load] does. What the quick scanner
// understands is decoded from the scanner's tree: client-go's way from YAML over JSON
// takes ten times as long, which shows from some hundred contexts on. A fuzz test holds
// one against the other. Whatever is unusual, mistakes included, is left to client-go.
func parse(data []byte) (*api.Config, error) {
	if config, ok := quickly(data); ok {
		return config, nil
	}
	return clientcmd.Load(data)
}

// quickly is [clientcmd.Load] for what the quick scanner understands.
func quickly(data []byte) (*api.Config, bool) {
	var read apiv1.Config
	config := api.NewConfig()
	convert := func() bool { // what it refuses client-go words
		latest.Scheme.Default(&read)
		return latest.Scheme.Convert(&read, config, nil) == nil
	}
	d, to := decoder{}, reflect.ValueOf(&read).Elem()
	// Elements are converted one by one, so that read does not grow.
	tree, ok := scanTree(data, func(key []byte, element *node) bool {
		field, known := d.fields(to.Type())[string(key)]
		if !known {
			return true
		}
		list := to.Field(field)
		if !d.append(element, list) || !convert() {
			return false
		}
		list.SetLen(0)
		return true
	})
	if !ok || tree.kind != mapping {
		return nil, false
	}
	for _, m := range tree.members {
		for _, name := range []string{"kind", "apiVersion"} { // client-go takes these two in any case, and no other
			if key := string(m.key); key != name && strings.EqualFold(key, name) {
				return nil, false
			}
		}
	}
	if !d.decode(tree, to) || read.Kind != "" && read.Kind != "Config" ||
		read.APIVersion != "" && read.APIVersion != latest.Version {
		return nil, false
	}
	return config, convert()
}

// node is a value of a YAML text, of which it has parts.
type node struct {
	kind    nodeKind
	text    []byte   // of a scalar
	members []member // of a mapping or sequence
}

// member is a value with its key, which is empty in a sequence.
type member struct {
	key []byte
	node
}

type nodeKind uint8

const (
	null nodeKind = iota
	boolean
	str
	sequence
	mapping
)

// maxKeys is the most keys that a mapping may have to be read into a node: they are
// compared with each other.
const maxKeys = 64

// add appends a member, null at first, under key if n is a mapping. It tells whether
// that is possible.
func (n *node) add(key []byte) bool {
	if n.kind == mapping {
		if len(n.members) == maxKeys {
			return false
		}
		for i := range n.members {
			if bytes.Equal(n.members[i].key, key) {
				return false
			}
		}
	}
	if len(n.members) == cap(n.members) {
		n.members = append(n.members, member{key: key})
		return true
	}
	n.members = n.members[:len(n.members)+1] // of an element that was taken
	m := &n.members[len(n.members)-1]
	m.key, m.node = key, node{members: m.members[:0]}
	return true
}

func (n *node) last() *node { return &n.members[len(n.members)-1].node }

// set makes n the scalar (or empty collection) that value is. text is its value if it
// is a string for every parser, else nil. It tells whether value is of a kind that is
// read.
func (n *node) set(value, text []byte) bool {
	if text != nil {
		n.kind, n.text = str, text
		return true
	}
	switch string(value) {
	case "null", "~":
	case "true", "false":
		n.kind, n.text = boolean, value
	case "[]":
		n.kind = sequence
	case "{}":
		n.kind = mapping
	default:
		return false
	}
	return true
}

// appendJSON appends n to b as encoding/json writes it.
func (n *node) appendJSON(b []byte) ([]byte, error) {
	switch n.kind {
	case null:
		return append(b, "null"...), nil
	case boolean:
		return append(b, n.text...), nil
	case str:
		text, err := json.Marshal(string(n.text))
		return append(b, text...), err
	}
	open, end := byte('['), byte(']')
	if n.kind == mapping {
		open, end = '{', '}'
		slices.SortFunc(n.members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	}
	b = append(b, open)
	for i := range n.members {
		if i > 0 {
			b = append(b, ',')
		}
		m := &n.members[i]
		if n.kind == mapping {
			b = append(append(append(b, '"'), m.key...), `":`...) // keys have nothing to escape
		}
		var err error
		if b, err = m.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}

// decoder decodes nodes into the structs of client-go, whose fields it has by their
// names in JSON.
type decoder map[reflect.Type]map[string]int

func (d decoder) fields(t reflect.Type) map[string]int {
	names := d[t]
	if names == nil {
		names = make(map[string]int, t.NumField())
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names[name] = i
			}
		}
		d[t] = names
	}
	return names
}

// append decodes n as a further element of v. It tells whether v is a slice of such.
func (d decoder) append(n *node, v reflect.Value) bool {
	if v.Kind() != reflect.Slice {
		return false
	}
	v.Grow(1)
	v.SetLen(v.Len() + 1)
	last := v.Index(v.Len() - 1)
	last.SetZero()
	return d.decode(n, last)
}

// decode sets v, which is zero, to n. What v has no field for is ignored, and null
// leaves v as it is, as in JSON. It tells whether n is of v's kind.
func (d decoder) decode(n *node, v reflect.Value) bool {
	if n.kind == null {
		return true
	}
	if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
		text, err := n.appendJSON(nil)
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: text}))
		return err == nil
	}
	switch kind := v.Kind(); {
	case kind == reflect.String && n.kind == str:
		v.SetString(string(n.text))
	case kind == reflect.Bool && n.kind == boolean:
		v.SetBool(string(n.text) == "true")
	case kind == reflect.Slice && n.kind == str && v.Type().Elem().Kind() == reflect.Uint8:
		b, err := base64.StdEncoding.AppendDecode([]byte{}, n.text)
		v.SetBytes(b)
		return err == nil
	case kind == reflect.Slice && n.kind == sequence:
		v.Set(reflect.MakeSlice(v.Type(), 0, len(n.members)))
		for i := range n.members {
			if !d.append(&n.members[i].node, v) {
				return false
			}
		}
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.decode(n, v.Elem())
	case kind == reflect.Map && n.kind == mapping:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
		for i := range n.members {
			value := reflect.New(v.Type().Elem()).Elem()
			if !d.decode(&n.members[i].node, value) {
				return false
			}
			v.SetMapIndex(reflect.ValueOf(string(n.members[i].key)), value)
		}
	case kind == reflect.Struct && n.kind == mapping:
		fields := d.fields(v.Type())
		for i := range n.members {
			field, ok := fields[string(n.members[i].key)]
			if ok && !d.decode(&n.members[i].node, v.Field(field)) {
				return false
			}
		}
	default:
		return false
	}
	return true
}
