//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// titles are how the page calls the suites, and what it says of them.
var titles = map[string]struct{ title, about, test string }{
	"kubectl": {
		"kubectl's own suite",
		"`test/cmd/*.sh` of k8s.io/kubernetes: shell scripts that run kubectl and assert what it prints and what the\n" +
			"API server then has.",
		"group",
	},
	"e2e": {
		"Kubernetes' end-to-end tests",
		"`test/e2e` of k8s.io/kubernetes: a program with client-go, which runs kubectl, too. All default controllers and\n" +
			"the scheduler run. The nodes are simulated: [kwok](https://kwok.sigs.k8s.io) makes pods running and ready, but\n" +
			"no container runs. So tests that run a program in a pod, connect to one or read its log are left out;\n" +
			"`test/conformance/e2e.txt` lists the tests that run, [Slow] and [Serial] ones among them, and those that were\n" +
			"tried and left out, with the reasons. Upstream itself skips the two tests of priority and fairness under load;\n" +
			"`fairness` in `test/transparency` floods the API server both ways instead.",
		"test",
	},
}

// summary is a suite's figures in lines, for a terminal.
func (c *comparison) summary() string {
	var b strings.Builder
	for _, w := range []struct {
		name string
		o    *outcome
	}{{keyFile, c.key}, {token, c.token}} {
		tests, assertions := w.o.passed()
		fmt.Fprintf(&b, "%s, by %s: %d of %d passed, %d assertions held, %d requests through the bridge, %d signatures, %s\n",
			c.name, w.name, tests, len(w.o.Tests), assertions, w.o.Requests, w.o.Signatures, w.o.Took.Round(time.Second))
	}
	return b.String()
}

// page is docs/conformance.md.
func page(all []*comparison, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Kubernetes' own test suites, through the token

Written by `+"`make conformance`"+`. It runs the suites of Kubernetes %s itself with a key file and again through
the token: SoftHSM2, the credential plugin, the agent and its bridge. Each run has its own control plane; the user
and the rights are the same. A test that passes with a key file must pass through the token, and each assertion of
kubectl's suite must have the same result, except for the differences below. A difference that no longer occurs is
an error.

`, version)
	b.WriteString("| suite | with a key file | through the token | requests | signatures of the token | time |\n" +
		"|---|---|---|---|---|---|\n")
	for _, c := range all {
		key, keyHeld := c.key.passed()
		tok, tokHeld := c.token.passed()
		keyWords, tokWords := fmt.Sprintf("%d of %d %ss", key, len(c.key.Tests), titles[c.name].test),
			fmt.Sprintf("%d of %d %ss", tok, len(c.token.Tests), titles[c.name].test)
		if keyHeld > 0 {
			keyWords += fmt.Sprintf(", %d assertions", keyHeld)
			tokWords += fmt.Sprintf(", %d assertions", tokHeld)
		}
		if n := c.key.conformance(); n > 0 {
			keyWords += fmt.Sprintf(" (%d conformance tests)", n)
			tokWords += fmt.Sprintf(" (%d conformance tests)", c.token.conformance())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | **%d** | %s / %s |\n", titles[c.name].title, keyWords, tokWords,
			c.token.Requests, c.token.Signatures, c.key.Took.Round(time.Second), c.token.Took.Round(time.Second))
	}
	fmt.Fprintf(&b, "\nRequests are those that the bridge passed on. The times are those of the runs with a key file and "+
		"through\nthe token, side by side, on %d CPUs.\n", runtime.NumCPU())
	for _, c := range all {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", titles[c.name].title, titles[c.name].about)
		writeReasons(&b, c)
	}
	return b.String()
}

// writeReasons writes a suite's differences, and what fails both ways.
func writeReasons(b *strings.Builder, c *comparison) {
	if len(c.reasons) == 0 {
		b.WriteString("No test differs.\n")
	} else {
		b.WriteString("| differs through the token | why |\n|---|---|\n")
		for _, d := range c.reasons {
			fmt.Fprintf(b, "| `%s` | %s |\n", d.Test, d.Reason)
		}
	}
	var failing []string
	for _, t := range c.key.Tests {
		if !t.Passed {
			failing = append(failing, "`"+t.Name+"`")
		}
	}
	if failing != nil {
		fmt.Fprintf(b, "\nThese fail both ways, in the same place: %s.\n", strings.Join(failing, ", "))
	}
	if len(c.wrong) > 0 {
		fmt.Fprintf(b, "\n**These do not go as they should:**\n\n```\n%s\n```\n", strings.Join(c.wrong, "\n"))
	}
}
