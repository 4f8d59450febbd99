package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Limit is how large, in bytes, a body may be that an API server takes
// (MaxRequestBodyBytes of k8s.io/apiserver/pkg/server.NewConfig).
const Limit = 3 << 20

// maxParts bounds the values of a body: each takes memory.
const maxParts = 200_000

// The media types that are read.
const (
	typeJSON           = "application/json"
	typeYAML           = "application/yaml"
	typeJSONPatch      = "application/json-patch+json"
	typeMergePatch     = "application/merge-patch+json"
	typeStrategicPatch = "application/strategic-merge-patch+json"
	typeApply          = "application/apply-patch+yaml"
)

// typeProtobuf is sent by controllers and parts of kubectl. It is not read.
const typeProtobuf = "application/vnd.kubernetes.protobuf"

// errUnread is the reason why a body is not read. It is shown.
type errUnread string

func (e errUnread) Error() string { return string(e) }

// mediaType is the type by which the API server reads the body: for a patch the header up to a
// semicolon (PatchResource of k8s.io/apiserver/pkg/endpoints/handlers), else
// NegotiateInputSerializer's. The API server ignores Content-Encoding; a proxy may not.
func mediaType(h http.Header, patch bool) (string, error) {
	if h["Content-Encoding"] != nil {
		return "", errUnread("it names a Content-Encoding")
	}
	values := h["Content-Type"]
	switch {
	case len(values) > 1:
		return "", errUnread("it names several types")
	case len(values) == 0 || values[0] == "":
		if patch {
			return "", errUnread("it names no type")
		}
		return typeJSON, nil
	case patch:
		t, _, _ := strings.Cut(values[0], ";")
		switch t {
		case typeJSONPatch, typeMergePatch, typeStrategicPatch, typeApply:
			return t, nil
		}
		return "", unknownType(t)
	}
	t, params, err := mime.ParseMediaType(values[0])
	if charset := params["charset"]; err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", errUnread("its type cannot be understood")
	}
	if t != typeJSON && t != typeYAML {
		return "", unknownType(t)
	}
	return t, nil
}

func unknownType(t string) error {
	if t == typeProtobuf {
		return errUnread("the body is protobuf")
	}
	return errUnread("it is of type " + consent.Name(t))
}

func decode(media string, data []byte) (any, error) {
	parts := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{"))
	isYAML := media == typeYAML || media == typeApply
	if isYAML {
		parts += bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("-")) + bytes.Count(data, []byte(":"))
	}
	switch {
	case parts > maxParts:
		return nil, errUnread("it has too many parts")
	case !utf8.Valid(data) || bytes.HasPrefix(data, []byte("\ufeff")):
		return nil, errUnread("it is not plain UTF-8")
	case !isYAML:
		return decodeJSON(data)
	}
	keys, err := plainYAML(data)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, errUnread("it is not YAML, or has a field twice")
	}
	v, err := decodeJSON(asJSON)
	if err == nil && keys != countKeys(v) { // keys of several types have become one
		err = errUnread("it has a field twice")
	}
	return v, err
}

func decodeJSON(data []byte) (v any, err error) {
	strict, err := json.UnmarshalStrict(data, &v, json.DisallowDuplicateFields)
	switch {
	case err != nil:
		return nil, errUnread("it is not JSON")
	case len(strict) > 0:
		return nil, errUnread("it has a field twice")
	}
	return v, nil
}

// plainYAML accepts one document without anchors, aliases, merges and tags, which let a small text
// grow or be read in several ways. It counts the fields.
func plainYAML(data []byte) (keys int, err error) {
	dec := yaml3.NewDecoder(bytes.NewReader(data))
	var doc, more yaml3.Node
	if err := dec.Decode(&doc); err != nil {
		return 0, errUnread("it is not YAML")
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return 0, errUnread("it is more than one document")
	}
	nodes := []*yaml3.Node{&doc}
	for len(nodes) > 0 {
		n := nodes[len(nodes)-1]
		nodes = append(nodes[:len(nodes)-1], n.Content...)
		if n.Anchor != "" || n.Kind == yaml3.AliasNode || n.Style&yaml3.TaggedStyle != 0 || n.Tag == "!!merge" {
			return 0, errUnread("it has anchors or tags")
		}
		if n.Kind == yaml3.MappingNode {
			keys += len(n.Content) / 2
		}
	}
	return keys, nil
}

func countKeys(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, each := range v {
			n += countKeys(each)
		}
	case []any:
		for _, each := range v {
			n += countKeys(each)
		}
	}
	return n
}

// Unread is the line about a body that is not read, for that reason.
func Unread(why string) string { return fmt.Sprintf("not read: %s", why) }
