package provider

import (
	"crypto/tls"
	"net/http"
	"reflect"
	"unsafe"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// tlsHolder is a round tripper that dials itself, with its own TLS options.
type tlsHolder interface{ TLSClientConfig() *tls.Config }

const maxDepth = 32

var roundTripper = reflect.TypeFor[http.RoundTripper]()

// bottom returns the innermost round tripper of rt, an [*http.Transport] or a [tlsHolder], or nil.
// Most wrappers have a method for that; others, such as kubectl's for its headers, are searched by
// reflection.
func bottom(rt http.RoundTripper) any { return search(rt, maxDepth) }

func search(rt http.RoundTripper, depth int) any {
	if depth == 0 || rt == nil {
		return nil
	}
	switch t := rt.(type) {
	case *http.Transport:
		if t == nil {
			return nil
		}
		return t
	case utilnet.RoundTripperWrapper:
		return search(t.WrappedRoundTripper(), depth-1)
	case tlsHolder:
		if reflect.ValueOf(t).Kind() == reflect.Pointer {
			return t
		}
	}
	return inside(rt, depth-1)
}

// inside searches the fields of a struct. Two different round trippers are no answer.
func inside(rt http.RoundTripper, depth int) any {
	v := reflect.ValueOf(rt)
	if v.Kind() == reflect.Struct { // fields of a copy can be looked at
		at := reflect.New(v.Type())
		at.Elem().Set(v)
		v = at
	}
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	var found any
	for i := range v.Elem().NumField() {
		next, ok := roundTripperIn(v.Elem().Field(i))
		if !ok {
			continue
		}
		switch b := search(next, depth); {
		case b == nil:
		case found != nil && found != b:
			return nil
		default:
			found = b
		}
	}
	return found
}

func roundTripperIn(field reflect.Value) (http.RoundTripper, bool) {
	if !field.Type().Implements(roundTripper) || field.Kind() != reflect.Interface && field.Kind() != reflect.Pointer ||
		field.IsNil() {
		return nil, false
	}
	if !field.CanInterface() {
		field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	}
	rt, ok := field.Interface().(http.RoundTripper)
	return rt, ok
}
