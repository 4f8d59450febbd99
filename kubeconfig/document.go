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

// wholeLimit is the size in bytes up to which a file is parsed as a whole
// before and after an edit. If it is larger before the edit, and the quick
// scanner understood every line, the items that no edit names are left out of
// both parses: their bytes are equal, and the scanner has proved where they
// begin and end. It is a variable for the tests alone.
var wholeLimit = 256 << 10

// document is a kubeconfig text with its meaning.
type document struct {
	data    []byte
	outline *outline
	partial bool              // items that names does not name are left out of value
	names   map[string]string // see openDocument
	value   object
}

// openDocument parses data. Of a section that is in names only the item of that
// name matters; see wholeLimit.
func openDocument(data []byte, names map[string]string) (*document, error) {
	o, quick, err := locate(data)
	if err != nil {
		return nil, err
	}
	d := &document{data: data, outline: o, partial: quick && len(data) > wholeLimit, names: names}
	d.value, err = decode(d.view(data, o))
	return d, err
}

// view is data, the text before or after an edit, or what is left of it without
// the items that do not matter if the document is partial. One rule holds for
// both texts: the edit may carry the file across wholeLimit.
func (d *document) view(data []byte, o *outline) []byte {
	if !d.partial {
		return data
	}
	var cuts []splice
	for name, s := range o.sections {
		for _, it := range s.items {
			if wanted, ok := d.names[name]; ok && it.name != wanted && s.style == styleBlock {
				if n := len(cuts); n > 0 && cuts[n-1].End == it.start {
					cuts[n-1].End = it.end
				} else {
					cuts = append(cuts, splice{Start: it.start, End: it.end})
				}
			}
		}
	}
	slices.SortFunc(cuts, func(a, b splice) int { return a.Start - b.Start })
	return applySplices(data, cuts)
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
	o, quick, err := locate(after)
	if err != nil {
		return err
	}
	if d.partial && !quick {
		// What the edits bring is more than the quick scanner understands: all of
		// both texts is compared.
		value, err := decode(d.data)
		if err != nil {
			return err
		}
		d = &document{data: d.data, outline: d.outline, names: d.names, value: value}
	}
	if err := sameNames(d.outline, o, edits); err != nil {
		return err
	}
	got, err := decode(d.view(after, o))
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

// sameNames checks that the lists hold the names they held, in order, but for
// the edits.
func sameNames(before, after *outline, edits []edit) error {
	for _, section := range []string{clusters, contexts, users} {
		var names []string
		if s := before.sections[section]; s != nil {
			for _, it := range s.items {
				names = append(names, it.name)
			}
		}
		for _, e := range edits {
			if e.Section != section {
				continue
			}
			at := slices.Index(names, e.Name)
			if at >= 0 && e.Body == nil {
				names = slices.Delete(names, at, at+1)
			} else if at < 0 && e.Body != nil {
				names = append(names, e.Name)
			}
		}
		var got []string
		if s := after.sections[section]; s != nil {
			for _, it := range s.items {
				got = append(got, it.name)
			}
		}
		if !slices.Equal(names, got) {
			return fmt.Errorf("the list %s would not hold what it held", section)
		}
	}
	return nil
}

func parseError(path string, err error) error {
	if errors.Is(err, ErrParse) || errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %w: %w", path, ErrParse, err)
}
