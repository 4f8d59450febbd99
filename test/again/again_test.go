package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// prelude has first, which is true in a package's first run only.
const prelude = `package p

import (
	"os"
	"testing"
)

func first(name string) bool {
	_, err := os.Stat(name)
	if err != nil {
		os.WriteFile(name, nil, 0o600)
	}
	return err != nil
}

func TestFine(t *testing.T) { t.Log(testing.Short(), os.Getpid()) }

func TestAnother(t *testing.T) { if first("another") { t.Log("first") } }
`

func TestAgain(t *testing.T) {
	for _, c := range []struct {
		name, code string
		flags      []string
		// flaky are the tests that are named, err is part of the failure.
		flaky []string
		err   string
		// shown is in the output, and hidden is not.
		shown, hidden string
	}{
		{name: "all pass", shown: "DONE 2 tests, 0 failed", hidden: "FLAKY"},
		{
			name:  "flaky",
			code:  `func TestA(t *testing.T) { if first("a") { t.Error("broken") } }`,
			flaky: []string{"FLAKY: TestA in again.test/p (p_test.go:19)"}, shown: "p_test.go:19: broken",
			hidden: "again.test/p\t(cached)",
		},
		{
			name: "two flaky, one in a subtest",
			code: `func TestA(t *testing.T) { t.Run("x", TestFine); t.Run("y z", testY) }
			func testY(t *testing.T) { if first("y") { t.Error("broken") } }
			func TestB(t *testing.T) { if first("b") { t.Error("broken") } }
			func TestBoth(t *testing.T) { if first("both") { t.Log("only once, since it passes") } }`,
			flaky: []string{
				"FLAKY: TestA/y_z in again.test/p (p_test.go:20)",
				"FLAKY: TestB in again.test/p (p_test.go:21)",
			},
			shown: "p_test.go:21: broken\n--- FAIL: TestB (0.00s)\nFAIL\n", hidden: "--- PASS",
		},
		{
			name: "fails twice",
			code: `func TestA(t *testing.T) { t.Error("broken") }`,
			err:  "TestA in again.test/p: go test: exit status 1",
		},
		{
			name: "one of two fails twice",
			code: `func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
			func TestB(t *testing.T) { t.Error("broken") }`,
			flaky: []string{"FLAKY: TestA in again.test/p (p_test.go:19)"},
			err:   "TestB in again.test/p: go test: exit status 1",
		},
		{
			name: "more than three",
			code: `func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
			func TestB(t *testing.T) { if first("b") { t.Error("broken") } }
			func TestC(t *testing.T) { if first("c") { t.Error("broken") } }
			func TestD(t *testing.T) { if first("d") { t.Error("broken") } }`,
			err: "more than 3 tests failed, so none ran again", hidden: "again, alone",
		},
		{
			name: "panic",
			code: `func TestA(t *testing.T) { if first("a") { panic("broken") } }`,
			err:  "not only tests failed", shown: "panic: broken", hidden: "again, alone",
		},
		{
			name: "panic after a failure",
			code: `func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
			func TestB(t *testing.T) { if first("b") { go panic("broken"); select {} } }`,
			err: "not only tests failed", shown: "panic: broken", hidden: "again, alone",
		},
		{
			name: "fatal error",
			code: `func TestA(t *testing.T) {
				if m := map[int]int{}; first("a") { go func() { for { m[1] = 1 } }(); for { m[1] = 2 } }
			}`,
			err: "not only tests failed", shown: "fatal error: concurrent map writes", hidden: "again, alone",
		},
		{
			name: "exit",
			code: `func TestA(t *testing.T) { if first("a") { os.Exit(1) } }`,
			err:  "not only tests failed", hidden: "again, alone",
		},
		{
			name: "exit of TestMain",
			code: `func TestMain(m *testing.M) { m.Run(); if first("a") { os.Exit(3) } }`,
			err:  "not only tests failed", hidden: "again, alone",
		},
		{
			name: "TestMain complains after a failure",
			code: `func TestMain(m *testing.M) { m.Run(); if first("a") { println("left behind"); os.Exit(1) } }
			func TestB(t *testing.T) { if first("b") { t.Error("broken") } }`,
			err: "not only tests failed", shown: "left behind", hidden: "again, alone",
		},
		{
			name: "time limit", flags: []string{"-timeout", "1s"},
			code: `func TestA(t *testing.T) { if first("a") { select {} } }`,
			err:  "not only tests failed", shown: "panic: test timed out", hidden: "again, alone",
		},
		{
			name: "build failure",
			code: `func TestA(t *testing.T) { var unused int }`,
			err:  "not only tests failed", shown: "declared and not used", hidden: "again, alone",
		},
		{
			name: "data race", flags: []string{"-race"},
			code: `func TestA(t *testing.T) {
				x, done := 0, make(chan bool)
				if first("a") { go func() { x++; close(done) }(); x++; <-done }
			}`,
			err: "again.test/p has a data race", shown: raceReport, hidden: "again, alone",
		},
		{
			name: "data race of a child process, which fails the test",
			code: `func TestA(t *testing.T) { if first("a") { t.Error("exit status 66:\n====\nWARNING: DATA RACE\n") } }`,
			err:  "again.test/p has a data race", shown: raceReport, hidden: "again, alone",
		},
		{
			name: "data race of a child process, which the test ignores",
			code: `func TestA(t *testing.T) { t.Log("stderr:\n==================\nWARNING: DATA RACE\n") }`,
			err:  "again.test/p has a data race", shown: raceReport,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module again.test\n\ngo 1.26\n")
			write(t, filepath.Join(dir, "p", "p_test.go"), prelude+c.code)
			// Another package passes meanwhile, and one has no tests.
			write(t, filepath.Join(dir, "q", "q_test.go"), "package q\n")
			write(t, filepath.Join(dir, "r", "r.go"), "package r\n")
			var out strings.Builder
			flaky, err := run(dir, c.flags, []string{"./..."}, &out)
			if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("ended with %v, want %q", err, c.err)
			}
			if !slices.Equal(flaky, c.flaky) {
				t.Errorf("flaky: %q, want %q", flaky, c.flaky)
			}
			if c.err == "" && !strings.Contains(out.String(), strings.Join(append(c.flaky, "DONE "), "\n")) {
				t.Error("the flaky tests are not listed before the last line")
			}
			if !strings.Contains(out.String(), c.shown) || c.hidden != "" && strings.Contains(out.String(), c.hidden) ||
				!strings.Contains(out.String(), "?   \tagain.test/r\t[no test files]\n") {
				t.Errorf("want %q and not %q", c.shown, c.hidden)
			}
			if t.Failed() {
				t.Logf("it said:\n%s", out.String())
			}
		})
	}
}

func TestList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "flaky")
	for _, lines := range [][]string{{"a", "b"}, {"c"}} {
		if err := appendLines(file, lines); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "a\nb\nc\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
