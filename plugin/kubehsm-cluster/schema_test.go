package main

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

type schema struct {
	Properties map[string]schema
	Items      *schema
}

// TestSchemas: the definitions in the manifests have the fields of the types, no more
// and no less.
func TestSchemas(t *testing.T) {
	manifest, err := os.ReadFile("manifests/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]any{"HardwareToken": clusterapi.HardwareToken{}, "RequestReview": clusterapi.RequestReview{},
		"EnrollmentPolicy": clusterapi.EnrollmentPolicy{}, "Revocation": clusterapi.Revocation{},
		"LossReport": clusterapi.LossReport{}}
	for _, doc := range bytes.Split(manifest, []byte("\n---\n")) {
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(doc, &crd); err != nil {
			t.Fatal(err)
		}
		kind := crd.Spec.Names.Kind
		compare(t, kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, reflect.TypeOf(kinds[kind]))
		delete(kinds, kind)
	}
	if len(kinds) > 0 {
		t.Errorf("no definitions of %v", slices.Collect(maps.Keys(kinds)))
	}
}

func compare(t *testing.T, path string, s schema, of reflect.Type) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice {
		of, s = of.Elem(), *s.Items
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[clusterapi.TokenSpec]().PkgPath() {
		return
	}
	var fields []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // the type's own
			fields = append(fields, "apiVersion", "kind")
			continue
		}
		fields = append(fields, name)
		if name != "metadata" {
			compare(t, path+"."+name, s.Properties[name], f.Type)
		}
	}
	slices.Sort(fields)
	if has := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(has, fields) {
		t.Errorf("%s: the schema has %v, the type %v", path, has, fields)
	}
}
