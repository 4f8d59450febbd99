package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// document is a kubeconfig text with its meaning.
type document struct {
	data    []byte
	outline *outline
	value   object
}

func openDocument(data []byte) (*document, error) {
	o, err := locate(data)
	if err != nil {
		return nil, err
	}
	d := &document{data: data, outline: o}
	d.value, err = decode(data)
	return d, err
}

// decode reads a kubeconfig as generic values, once clientcmd has accepted it.
func decode(data []byte) (object, error) {
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParse, err)
	}
	var value object
	if err := decodeJSON(text, &value); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParse, err)
	}
	if value == nil {
		return object{}, nil // nothing but comments
	}
	if _, err := clientcmd.Load(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParse, err)
	}
	return value, nil
}

func decodeJSON(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(to)
}

// body is the value of an item, or nil.
func (d *document) body(section, name string) object {
	list, _ := d.value[section].([]any)
	for _, x := range list {
		if m, ok := x.(object); ok && m["name"] == name {
			body, _ := m[bodyKey[section]].(object)
			if body == nil {
				body = object{}
			}
			return body
		}
	}
	return nil
}

// sameBody tells whether two values of an item mean the same, nil being none.
// kubectl writes members without a value as null (an exec user's env).
func sameBody(a, b object) bool {
	return (a == nil) == (b == nil) && reflect.DeepEqual(withoutNull(a), withoutNull(b))
}

// withoutNull is v without the members of objects that are null.
func withoutNull(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, x := range v {
			if x != nil {
				out[k] = withoutNull(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = withoutNull(x)
		}
		return out
	}
	return v
}

func (d *document) current() string {
	s, _ := d.value[currentContext].(string)
	return s
}

// lines is the text of an item.
func (d *document) lines(section, name string) []byte {
	s := d.outline.sections[section]
	it := s.find(name)
	if it == nil || s.style != styleBlock {
		return nil
	}
	return d.data[it.start:it.end]
}

// change edits the text and proves that nothing but the edits has changed.
func (d *document) change(edits []edit) (after []byte, splices []splice, err error) {
	splices, err = editText(d.data, d.outline, edits)
	if err != nil {
		return nil, nil, err
	}
	after = applySplices(d.data, splices)
	if err := d.prove(after, edits); err != nil {
		if name := d.anchored(edits); name != "" {
			return nil, nil, hint.Withf(fmt.Errorf("%w: other parts of it refer to the entry %q by a YAML alias", ErrUnsupported,
				name),
				"nothing was written; write those parts out, or let kubectl do it: kubectl config view --raw --flatten")
		}
		return nil, nil, hint.Withf(fmt.Errorf("%w: internal: %w", ErrUnsupported, err),
			"nothing was written; use another file with --kubeconfig, or let kubectl rewrite this one: kubectl config view "+
				"--raw --flatten")
	}
	return after, splices, nil
}

// anchored names the first entry among the edits whose lines hold an anchor:
// without it, what refers to it means nothing.
func (d *document) anchored(edits []edit) string {
	anchor := regexp.MustCompile(`(?m)(^|[\s\[{,])&[^\s,\]}]`)
	for _, e := range edits {
		if e.Section != currentContext && anchor.Match(d.lines(e.Section, e.Name)) {
			return e.Name
		}
	}
	return ""
}

func (d *document) prove(after []byte, edits []edit) error {
	got, err := decode(after)
	if err != nil {
		return err
	}
	want := expected(d.value, edits)
	if d.outline.empty {
		want["apiVersion"], want["kind"] = "v1", "Config"
	}
	for _, s := range []string{clusters, contexts, users} {
		for _, v := range []object{got, want} {
			if list, ok := v[s].([]any); v[s] == nil || ok && len(list) == 0 {
				delete(v, s) // none, null and [] mean the same
			}
		}
	}
	if got[currentContext] == "" || got[currentContext] == nil {
		delete(got, currentContext)
	}
	if want[currentContext] == "" || want[currentContext] == nil {
		delete(want, currentContext)
	}
	if !reflect.DeepEqual(got, want) {
		return errors.New("more than the entry would change")
	}
	return nil
}

// expected is what value becomes by the edits. value is not changed.
func expected(value object, edits []edit) object {
	want := object{}
	for k, v := range value {
		want[k] = v
	}
	for _, e := range edits {
		if e.Section == currentContext {
			want[currentContext] = e.Value
			continue
		}
		list, _ := want[e.Section].([]any)
		list = slices.Clone(list)
		at := slices.IndexFunc(list, func(x any) bool { m, ok := x.(object); return ok && m["name"] == e.Name })
		switch {
		case at >= 0 && e.Body == nil:
			list = slices.Delete(list, at, at+1)
		case at >= 0:
			list[at] = itemValue(e)
		case e.Body != nil:
			list = append(list, itemValue(e))
		}
		want[e.Section] = list
	}
	return want
}

func parseError(path string, err error) error {
	if errors.Is(err, ErrParse) || errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %w: %w", path, ErrParse, err)
}
