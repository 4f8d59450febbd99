//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// summary is the suite's figures in lines, for a terminal.
func (c *comparison) summary() string {
	var b strings.Builder
	for _, w := range []struct {
		name string
		o    *outcome
	}{{keyFile, c.key}, {token, c.token}} {
		groups, assertions := w.o.passed()
		fmt.Fprintf(&b, "by %s: %d of %d passed, %d assertions held, %d requests through the bridge, %d signatures, %s\n",
			w.name, groups, len(w.o.Tests), assertions, w.o.Requests, w.o.Signatures, w.o.Took.Round(time.Second))
	}
	return b.String()
}

// page is docs/conformance.md.
func (c *comparison) page(version string) string {
	key, keyHeld := c.key.passed()
	tok, tokHeld := c.token.passed()
	var b strings.Builder
	fmt.Fprintf(&b, `# kubectl's own test suite, through the token

Written by `+"`make conformance`"+`. It runs `+"`test/cmd/*.sh`"+` of Kubernetes %s: shell scripts that run kubectl
and assert what it prints and what the API server then has. They run with a key file and again through the token:
SoftHSM2, the credential plugin, the agent and its bridge. Each run has its own control plane; the user and the rights
are the same. Each assertion must have the same result both ways, except for the differences below. A difference that no
longer occurs is an error.

| | with a key file | through the token |
|---|---|---|
| groups that pass | %d of %d | %d of %d |
| assertions that hold | %d | %d |
| requests that the bridge passed on | – | %d |
| signatures of the token | – | **%d** |
| time, side by side on %d CPUs | %s | %s |

`, version, key, len(c.key.Tests), tok, len(c.token.Tests), keyHeld, tokHeld, c.token.Requests, c.token.Signatures,
		runtime.NumCPU(), c.key.Took.Round(time.Second), c.token.Took.Round(time.Second))
	c.writeReasons(&b)
	return b.String()
}

// writeReasons writes the differences, and what fails both ways.
func (c *comparison) writeReasons(b *strings.Builder) {
	b.WriteString("| differs through the token | why |\n|---|---|\n")
	for _, d := range c.reasons {
		fmt.Fprintf(b, "| `%s` | %s |\n", d.Test, d.Reason)
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
