//go:build linux && cgo

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/fleet"
	"github.com/kubehsm/kubehsm/test/vcard"
)

var people = flag.Int("people", 50, "how many people come, from a list to signed in")

// TestPeople brings people from a list to signed in: the help desk imports the list and makes the join
// line, everybody puts in a card and runs it, and nobody decides on anything.
func TestPeople(t *testing.T) {
	cards := vcard.ForTest(t)
	l := newLab(t, controlplane.Options{})
	l.start()
	dir := t.TempDir()
	binary, err := e2e.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []fleet.Person
	for i := range *people {
		all = append(all, fleet.Person{Name: fmt.Sprintf("user-%d", i), Serial: 20000000 + uint32(i)})
	}
	begin := time.Now()
	f, err := fleet.Open(t.Context(), l.c, binary, filepath.Join(dir, "people.csv"), l.home(t, binary), all,
		"--self-contained")
	if err != nil {
		t.Fatal(err)
	}
	imported := time.Since(begin)

	begin = time.Now()
	for _, p := range all {
		cards.Insert(t, 0, p.Card(l.maker))
		if err := f.Come(t.Context(), p, shortDir(t)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d people: imported in %.1f s, joined in %.1f s", *people, imported.Seconds(), time.Since(begin).Seconds())

	o := l.stored()
	if len(o.issued) != *people || len(o.denied)+len(o.pending) != 0 {
		t.Errorf("%d certificates for %d people, %d denied, %d wait", len(o.issued), *people, len(o.denied), len(o.pending))
	}
	for name, obj := range o.issued {
		if c := condition(obj); c.Reason != judge.ReasonRoster {
			t.Errorf("%s was approved as %s: %s", name, c.Reason, c.Message)
		}
	}
	if reviews := l.kubectl("-n", clusterapi.Namespace, "get", "requestreviews", "-o", "name"); reviews != "" {
		t.Errorf("the desk was asked:\n%s", reviews)
	}
}

// home is what the help desk has: a home folder, the program, and no credential.
func (l *lab) home(t *testing.T, binary string) *e2e.Lab {
	t.Helper()
	p, err := fleet.Home(l.c, binary, shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shortDir is a folder with a name that is short enough for sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubehsm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
