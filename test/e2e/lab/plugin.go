//go:build linux

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Plugin is a script between the clients of the lab's kubeconfig and its
// program: it counts how often a client runs it.
type Plugin struct{ runs, script, program string }

// Rotate has each run from now on count as one of another client: each gets a
// certificate of its own, as runs do that come hours apart.
func (p Plugin) Rotate(life time.Duration) error {
	return p.write(fmt.Sprintf("set -o pipefail\n'%s' \"$@\" | %s", p.program, shorten(life)))
}

// Expire has the credentials of runs from now on expire after life, in whole seconds, or
// as the program says if it is 0.
func (p Plugin) Expire(life time.Duration) error {
	// The program takes the script's place: who runs the plugin is its parent.
	run := fmt.Sprintf("exec '%s' \"$@\"", p.program)
	if life > 0 {
		run += fmt.Sprintf(" > >(%s)", shorten(life))
	}
	return p.write(run)
}

func (p Plugin) write(run string) error {
	text := fmt.Sprintf("#!/bin/bash\necho \"$PPID\" >>'%s'\n%s\n", p.runs, run)
	// Another file, as one that runs cannot be written.
	if err := os.WriteFile(p.script+".new", []byte(text), 0o700); err != nil {
		return err
	}
	return os.Rename(p.script+".new", p.script)
}

// shorten is a filter that has a credential expire after life.
func shorten(life time.Duration) string {
	return fmt.Sprintf(`sed "s/\"expirationTimestamp\":\"[^\"]*\"/\"expirationTimestamp\":\"$(date -u -d '+%d sec' +%%Y-%%m-%%dT%%H:%%M:%%SZ)\"/"`,
		int(life.Seconds()))
}

// InterposePlugin writes the script into the kubeconfig. With a life above 0,
// in whole seconds, a credential expires so soon.
func (l *Lab) InterposePlugin(life time.Duration) (Plugin, error) {
	p := Plugin{runs: filepath.Join(l.Dir, "plugin-runs"), script: filepath.Join(l.Dir, "bin", "plugin"),
		program: l.Plugin}
	if err := p.Expire(life); err != nil {
		return p, err
	}
	script := p.script
	config, err := os.ReadFile(l.Kubeconfig)
	if err != nil {
		return p, err
	}
	from, to := []byte("command: "+l.Plugin+"\n"), []byte("command: "+script+"\n")
	if !bytes.Contains(config, from) {
		return p, errors.New("no user of the kubeconfig runs the lab's program")
	}
	return p, os.WriteFile(l.Kubeconfig, bytes.ReplaceAll(config, from, to), 0o600)
}

// Runs is how often the script was run.
func (p Plugin) Runs() int {
	b, err := os.ReadFile(p.runs)
	if err != nil {
		return 0 // no log, no lines
	}
	return bytes.Count(b, []byte("\n"))
}
