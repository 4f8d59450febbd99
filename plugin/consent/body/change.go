package body

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// changes names the fields that an object or patch sets and removes.
func (t *teller) changes(o object) {
	var sets, removes []string
	var walk func(o object, path string, depth int)
	walk = func(o object, path string, depth int) {
		for _, k := range keys(o) {
			at := path + k
			if path == "" && (k == "apiVersion" || k == "kind") {
				continue
			}
			switch v := o[k].(type) {
			case nil:
				removes = append(removes, at)
			case object:
				if k == "metadata" && path == "" && t.r.Verb != "patch" {
					continue
				}
				if depth > 1 && len(v) > 0 {
					walk(v, at+".", depth-1)
					continue
				}
				sets = append(sets, at)
			default:
				if k == "$patch" || k == "$retainKeys" || strings.HasPrefix(k, "$deleteFromPrimitiveList") {
					removes = append(removes, at)
					continue
				}
				sets = append(sets, at)
			}
		}
	}
	depth := 2
	if t.r.Verb == "patch" {
		depth = 4
	}
	walk(o, "", depth)
	if len(sets) > 0 {
		t.say("sets %s", names(sets))
	}
	if len(removes) > 0 {
		t.say("removes %s", names(removes))
	}
}

// jsonPatch describes the operations of RFC 6902.
func (t *teller) jsonPatch(v any) error {
	all, ok := v.([]any)
	if !ok {
		return errUnread("it is not a list of changes")
	}
	for _, each := range all {
		op, ok := each.(object)
		if !ok {
			return errUnread("it is not a list of changes")
		}
		path := t.str(op, "path")
		words := name(t.str(op, "op")) + " " + consent.Quote(path)
		if from := t.str(op, "from"); from != "" {
			words += " from " + consent.Quote(from)
		}
		at, loud, v := len(t.lines), len(t.loud), visible(t.r, path, t.get(op, "value"))
		t.say("%s", words)
		if whole := put(path, t.get(op, "value")); whole != nil {
			t.what(whole)
		}
		if v != "" && len(t.lines) == at+1 && len(t.loud) == loud { // the value is on no other line
			t.lines[at] += ": " + v
		}
	}
	if len(all) == 0 {
		t.say("no changes")
	}
	return nil
}

// telling are the fields that show the programs, bindings and exposed services of an object, and
// hold no secrets.
var telling = []string{"image", "replicas", "type", "serviceAccountName", "hostNetwork", "hostPID", "hostIPC",
	"privileged", "suspend", "unschedulable", "paused", "externalName"}

// visible is the value of a JSON patch at path, if it may be shown.
func visible(r consent.Request, path string, v any) string {
	last := path[strings.LastIndexByte(path, '/')+1:]
	if r.Resource == "secrets" || r.Resource == "configmaps" {
		return ""
	}
	isRBAC := r.Group == "rbac.authorization.k8s.io"
	for _, each := range telling {
		isRBAC = isRBAC || each == last
	}
	if !isRBAC {
		return ""
	}
	switch v := v.(type) {
	case string:
		return consent.Quote(v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

const maxDepth = 32

// freeKeys are fields with arbitrary keys, also a number or "-".
var freeKeys = []string{"data", "stringData", "binaryData", "labels", "annotations"}

// put is an object that has v at path (RFC 6901), or nil.
func put(path string, v any) object {
	if v == nil || strings.Count(path, "/") > maxDepth {
		return nil
	}
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i > 0; i-- { // nothing is before the first slash
		// The API server reads indices by strconv.Atoi, and counts from the end below 0.
		if _, err := strconv.Atoi(parts[i]); (err == nil || parts[i] == "-") && !slices.Contains(freeKeys, parts[i-1]) {
			v = []any{v}
			continue
		}
		v = object{strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i]): v}
	}
	o, _ := v.(object)
	return o
}
