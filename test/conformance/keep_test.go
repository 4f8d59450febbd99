//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestKept: a run that is stopped goes on where it was, and what did not go as it
// should is repeated.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	s := &stage{results: filepath.Join(dir, "results"), kubehsm: filepath.Join(dir, "kubehsm"),
		upstream: &upstream{version: "v1"}}
	build := func(program string) {
		if err := os.WriteFile(s.kubehsm, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(way string) *kept {
		k, err := s.openKept("e2e", way)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	left := func(k *kept, want string, tests ...string) {
		t.Helper()
		if got := fmt.Sprint(k.left(tests, 2)); got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
	}
	passed := func(signatures int, names ...string) *outcome {
		o := &outcome{Openings: []opening{{Signatures: signatures, Requests: 10 * signatures}}}
		for _, n := range names {
			o.Tests = append(o.Tests, test{Name: n, Passed: true})
		}
		return o
	}
	add := func(k *kept, o *outcome, first bool) {
		t.Helper()
		if err := k.add(o, first); err != nil {
			t.Fatal(err)
		}
	}

	build("one")
	k := open(token)
	left(k, "[[a b] [c]]", "a", "b", "c")
	add(k, passed(1, "a"), true)
	add(k, passed(1, "b"), false)
	if k = open(token); k.Outcome.signatures() != 1 || k.Outcome.requests() != 10 {
		t.Errorf("one opening: %+v", k.Outcome)
	}
	left(k, "[[c]]", "a", "b", "c")
	add(k, passed(1, "c"), true)
	if k = open(token); k.Outcome.signatures() != 2 || len(k.Outcome.Openings) != 2 {
		t.Errorf("two openings: %+v", k.Outcome)
	}
	left(k, "[]", "a", "b", "c")
	left(k, "[]")

	// "b" goes otherwise with a key file.
	other := open(keyFile)
	left(other, "[[]]")
	failed := passed(0, "a", "b", "c")
	failed.Tests[1].Passed = false
	add(other, failed, true)
	both := []*kept{other, k}
	c := &comparison{name: "e2e", key: &other.Outcome, token: &k.Outcome}
	if err := s.judge(c, both); err != nil || len(c.wrong) != 1 {
		t.Fatalf("%v, wrong: %q", err, c.wrong)
	}
	for _, way := range []string{keyFile, token} {
		k := open(way)
		left(k, "[[b]]", "a", "b", "c")
		left(k, "[[b d]]", "a", "b", "c", "d")
		left(k, "[[b]]")
		add(k, passed(1, "b"), true)
		left(open(way), "[]", "a", "b", "c")
	}
	if got := open(keyFile).Outcome.only([]string{"b"}); len(got.Tests) != 1 || !got.Tests[0].Passed {
		t.Errorf("only b: %+v", got)
	}

	// Another build of kubehsm makes the token's results void, not the key file's.
	build("two")
	left(open(token), "[[a b] [c]]", "a", "b", "c")
	left(open(keyFile), "[]", "a", "b", "c")
	s.upstream.version = "v2"
	left(open(keyFile), "[[a b] [c]]", "a", "b", "c")
}
