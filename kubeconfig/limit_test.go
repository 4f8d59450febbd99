package kubeconfig

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// lowLimit has wholeLimit be reached by a small file.
func lowLimit(t *testing.T) {
	t.Helper()
	before := wholeLimit
	wholeLimit = 8 << 10
	t.Cleanup(func() { wholeLimit = before })
}

// padded is text after a comment that makes it size bytes long.
func padded(t testing.TB, text string, size int) string {
	t.Helper()
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	var b strings.Builder
	for line := "#" + strings.Repeat("-", 1022-len(eol)) + "." + eol; b.Len()+2*len(line) < size-len(text); {
		b.WriteString(line)
	}
	b.WriteString("#" + strings.Repeat("-", size-len(text)-b.Len()-1-len(eol)) + eol + text)
	if b.Len() != size {
		t.Fatalf("%d bytes, not %d", b.Len(), size)
	}
	return b.String()
}

// TestLimitIsCrossed sets entries one after the other and takes them out again,
// which carries the file across wholeLimit both ways.
func TestLimitIsCrossed(t *testing.T) {
	lowLimit(t)
	r, path := one(t, padded(t, kubectlStyle, wholeLimit-6000))
	names := []string{}
	check := func() {
		t.Helper()
		v, err := decode([]byte(text(t, path)))
		if err != nil {
			t.Fatal(err)
		}
		for section := range bodyKey {
			got := []string{}
			for _, x := range v[section].([]any) {
				got = append(got, fmt.Sprint(x.(object)["name"]))
			}
			if want := append([]string{"one"}, names...); !reflect.DeepEqual(got, want) {
				t.Fatalf("the %s are %q, not %q", section, got, want)
			}
		}
	}
	for i := range 20 {
		name := fmt.Sprintf("cluster-%02d", i)
		mustApply(t, mustPlan(t, r, entry(name)), nil)
		names = append(names, name)
		check()
	}
	if size := len(text(t, path)); size < wholeLimit+1000 {
		t.Fatalf("the limit was not crossed: %d bytes", size)
	}
	for len(names) > 0 {
		p, err := r.PlanRemove(context.Background(), names[0], Options{})
		if err != nil {
			t.Fatalf("%s in a file of %d bytes: %v", names[0], len(text(t, path)), err)
		}
		mustApply(t, p, nil)
		names = names[1:]
		check()
	}
	if size := len(text(t, path)); size >= wholeLimit {
		t.Fatalf("the limit was not crossed back: %d bytes", size)
	}
}

// TestShapesAtTheLimit edits every shape of a file where its size, or what the
// edits make of it, is about wholeLimit.
func TestShapesAtTheLimit(t *testing.T) {
	lowLimit(t)
	for name, c := range shapes {
		for _, size := range []int{wholeLimit - 400, wholeLimit + 1} {
			t.Run(fmt.Sprintf("%s/%d", name, size-wholeLimit), func(t *testing.T) {
				checkShape(t, padded(t, c.text, size), c.keep)
			})
		}
	}
}
