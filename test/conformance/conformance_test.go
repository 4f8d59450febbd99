//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// kubectlSlice are the groups of kubectl's suite that every run of the tests has: some
// seconds of reading and writing, credentials, impersonation and preferences, with
// one group that differs for a reason.
var kubectlSlice = []string{"run_kubectl_version_tests", "run_kubectl_exec_pod_tests", "run_certificates_tests",
	"run_exec_credentials_interactive_tests", "run_kubectl_auth_whoami_tests", "run_impersonation_tests",
	"run_kuberc_tests"}

// TestKubectlSuite runs groups of kubectl's own suite both ways at once: they must pass with a key file, and
// through the token with one signature, unless there is a reason.
func TestKubectlSuite(t *testing.T) {
	for _, program := range []string{"jq", "openssl", "script", "tput", "softhsm2-util"} {
		need.Program(t, program)
	}
	if _, current, err := controlplane.Built(t.Context(), true); err != nil {
		t.Fatal(err)
	} else if !current {
		need.Missing(t, "the control plane is not built: run `make cluster`")
	}
	// Not t.TempDir: the agent's socket path would be too long.
	dir, err := os.MkdirTemp("", "kubehsm-")
	must.OK(t, err)
	defer os.RemoveAll(dir)
	s := &stage{dir: dir}
	if s.upstream, err = findUpstream(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.kubehsm, err = lab.Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	c, err := s.compare(t.Context(), kubectlSlice)
	must.OK(t, err)
	t.Log(c.summary())
	for _, wrong := range c.wrong {
		t.Error(wrong)
	}
	for _, name := range kubectlSlice {
		if k := c.key.find(name); k == nil || !k.Passed {
			t.Errorf("%s does not pass with a key file: %+v", name, k)
		}
	}
	if n := c.token.Requests; n < 100 {
		t.Errorf("only %d requests went through the bridge", n)
	}
}

// TestJudge: a difference needs a reason, and a reason its difference.
func TestJudge(t *testing.T) {
	held := assertion{Place: "core.sh:7", Function: "if_has_string", Held: true}
	failed, elsewhere := held, held
	failed.Held, elsewhere.Place = false, "core.sh:8"
	good := test{Name: "run_a_tests", Passed: true, Assertions: []assertion{held}}
	bad := test{Name: "run_a_tests", Said: "a path /c/prod", Assertions: []assertion{held}}
	reason := []difference{{Test: "run_a_tests", Says: "path /c/"}}
	for name, c := range map[string]struct {
		key, token []test
		reasons    []difference
		want       string // "" for nothing
	}{
		"same":                {[]test{good}, []test{good}, nil, ""},
		"fails both ways":     {[]test{bad}, []test{bad}, nil, ""},
		"not reasoned":        {[]test{good}, []test{bad}, nil, "passes with a key file, fails through the token"},
		"better by the token": {[]test{bad}, []test{good}, nil, "fails with a key file, passes through the token"},
		"reasoned":            {[]test{good}, []test{bad}, reason, ""},
		"reason is gone":      {[]test{good}, []test{good}, reason, "it does not"},
		"another reason": {[]test{good}, []test{bad}, []difference{{Test: "run_a_tests", Says: "touch"}},
			"for another reason"},
		"no reason to pass": {[]test{{Name: "run_a_tests"}}, []test{bad}, reason, "fails with a key file, too"},
		"malformed":         {[]test{good}, []test{bad}, []difference{{Test: "run_a_tests", Says: "("}}, "missing closing"},
		"not by the token":  {[]test{good}, nil, nil, "was not run through the token"},
		"not by key file":   {nil, []test{good}, nil, "was run through the token only"},
		"an assertion fails": {[]test{good},
			[]test{{Name: "run_a_tests", Passed: true, Assertions: []assertion{failed}}}, nil,
			"if_has_string holds, through the token core.sh:7 if_has_string fails"},
		"another assertion": {[]test{good}, []test{{Name: "run_a_tests", Passed: true, Assertions: []assertion{elsewhere}}},
			nil, "through the token core.sh:8"},
		"fewer assertions": {[]test{good}, []test{{Name: "run_a_tests", Passed: true}}, nil,
			"ends through the token before core.sh:7"},
		"more assertions": {[]test{{Name: "run_a_tests", Passed: true}}, []test{good}, nil, "ends with a key file before"},
		"of other tests":  {[]test{good}, []test{good}, []difference{{Test: "run_b_tests", Says: "x"}}, ""},
	} {
		got := judge(&outcome{Tests: c.key}, &outcome{Tests: c.token}, c.reasons)
		if text := strings.Join(got, "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestReadRecord: an assertion that never ended failed, and its group with it; one
// that fails and is followed by another has an alternative.
func TestReadRecord(t *testing.T) {
	dir := t.TempDir()
	record, log := filepath.Join(dir, "record"), filepath.Join(dir, "log")
	write := func(file, text string) {
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(record, strings.ReplaceAll(`group run_a_tests begin
assert run_a_tests core.sh:1 if_has_string begin
assert run_a_tests core.sh:1 if_has_string 0
assert run_a_tests core.sh:2 if_has_string begin
assert run_a_tests core.sh:2 if_has_string 1
assert run_a_tests core.sh:3 if_has_string begin
assert run_a_tests core.sh:3 if_has_string 0
assert run_a_tests core.sh:4 if_has_string begin
group run_a_tests failed
assert  legacy-script.sh:9 if_empty_string begin
assert  legacy-script.sh:9 if_empty_string 1
group run_b_tests begin
group run_b_tests passed
`, " ", "\t"))
	write(log, "setup\nRecording: run_a_tests\nthis is a\nRecording: run_b_tests\nthis is b\n")
	o, err := readRecord(record, log)
	must.OK(t, err)
	a, b, rest := o.find("run_a_tests"), o.find("run_b_tests"), o.find(outside)
	if a == nil || a.Passed || a.Said != "this is a" || !slices.Equal(a.Assertions,
		[]assertion{{"core.sh:1", "if_has_string", true}, {"core.sh:2", "if_has_string", true},
			{"core.sh:4", "if_has_string", false}}) {
		t.Errorf("a: %+v", a)
	}
	if b == nil || !b.Passed || b.Said != "this is b\n" {
		t.Errorf("b: %+v", b)
	}
	if rest == nil || rest.Passed || len(rest.Assertions) != 1 {
		t.Errorf("outside: %+v", rest)
	}
	if tests, assertions := o.passed(); tests != 1 || assertions != 2 {
		t.Errorf("%d tests, %d assertions", tests, assertions)
	}
	write(record, "what\n")
	if _, err := readRecord(record, log); err == nil {
		t.Error("a record of something else is read")
	}
	write(log, "sh: no such file\n")
	write(record, "")
	if _, err := readRecord(record, log); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a suite that did not begin: %v", err)
	}
}
