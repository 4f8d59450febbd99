package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

type schema struct {
	Properties          map[string]schema
	Items               *schema
	Format, Pattern     string
	MaxItems, MaxLength int
}

// definitions are the schemas in the manifests, by kind.
func definitions(t *testing.T) map[string]schema {
	t.Helper()
	manifest, err := os.ReadFile("manifests/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]schema{}
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
		all[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return all
}

// TestSchemas: the definitions in the manifests have the fields of the types, no more
// and no less.
func TestSchemas(t *testing.T) {
	kinds := map[string]any{"HardwareToken": clusterapi.HardwareToken{}, "RequestReview": clusterapi.RequestReview{},
		"EnrollmentPolicy": clusterapi.EnrollmentPolicy{}, "Revocation": clusterapi.Revocation{}}
	for kind, s := range definitions(t) {
		compare(t, kind, s, reflect.TypeOf(kinds[kind]))
		delete(kinds, kind)
	}
	if len(kinds) > 0 {
		t.Errorf("no definitions of %v", slices.Collect(maps.Keys(kinds)))
	}
	token := definitions(t)["HardwareToken"]
	spec, others := token.Properties["spec"].Properties, token.Properties["status"].Properties["others"]
	groups := spec["groups"]
	for what, n := range map[string][2]int{
		"further certificates":   {others.MaxItems, clusterapi.MaxOthers},
		"groups":                 {groups.MaxItems, csr.MaxGroups},
		"characters of an owner": {spec["owner"].MaxLength, csr.MaxName},
		"characters of a group":  {groups.Items.MaxLength, csr.MaxName},
	} {
		if n[0] != n[1] {
			t.Errorf("the schema has %d %s, the types have %d", n[0], what, n[1])
		}
	}
}

// TestTimes: the schema takes no time from the help desk that the approver cannot read. It would read no object of the
// kind any more: the API server takes some for a date-time that Go does not.
func TestTimes(t *testing.T) {
	all := definitions(t)
	for name, s := range map[string]schema{
		"horizon":  all["HardwareToken"].Properties["spec"].Properties["horizon"],
		"notAfter": all["Revocation"].Properties["spec"].Properties["certificates"].Items.Properties["notAfter"],
	} {
		pattern, err := regexp.Compile(s.Pattern)
		if err != nil || s.Pattern == "" || s.Format != "date-time" {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		for _, text := range []string{"2027-01-01T00:00:00Z nonsense", "2027-01-01T00:00:00Zt", "2027-01-01t00:00:00z",
			"2027-01-01T00:00:00x5Z", "2027-01-01T00:00:00+99:99", "9999-12-31T23:59:59-14:00"} {
			if pattern.MatchString(text) {
				t.Errorf("%s may be %q", name, text)
			}
		}
		for _, text := range []string{"2027-01-01T00:00:00Z", "2027-01-01T00:00:00.000001Z", "9999-12-31T23:59:59Z"} {
			var to metav1.Time
			if err := json.Unmarshal([]byte(`"`+text+`"`), &to); err != nil || !pattern.MatchString(text) {
				t.Errorf("%s may not be %q: %v", name, text, err)
			}
		}
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
