//go:build unix

// Kubehsm-credential is the exec credential plugin (KEP-541) that kubectl starts for every command. If the
// agent has the answer at hand, it prints the answer. Otherwise, whatever the arguments, it executes kubehsm with
// the same arguments: the kubehsm in its own folder, never one that PATH names. kubehsm starts agents, asks for
// PINs and has the words for whatever is wrong. So kubehsm-credential links nothing that a person, a token or a network
// would need, and takes about as long to start as any Go program.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/plugin/agent/quick"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run prints the answer, or becomes kubehsm.
func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if file, err := filepath.EvalSymlinks(self); err == nil { // an upgrade may have taken the file away just now
		self = file
	}
	kubehsm := filepath.Join(filepath.Dir(self), "kubehsm")
	answer := atHand(kubehsm, args)
	if answer == nil {
		return execute(self, kubehsm, args)
	}
	defer clear(answer)
	if _, err := os.Stdout.Write(answer); err != nil {
		return fmt.Errorf("write exec credential: %w", err)
	}
	return nil
}

// atHand asks the agent of the program kubehsm. The answer is nil if there is none at hand, for whatever
// reason: kubehsm finds the reason again.
func atHand(kubehsm string, args []string) []byte {
	q, ok := request(args)
	q.ExecInfo = os.Getenv("KUBERNETES_EXEC_INFO")
	if !ok || q.ExecInfo == "" && (q.Enrollment == "" || term.IsTerminal(int(os.Stdout.Fd()))) {
		return nil
	}
	dirs, err := home.FromEnv(os.Getenv)
	if err != nil {
		return nil
	}
	return quick.Credential(kubehsm, dirs.Socket(), q)
}

// request reads arguments as kubeconfig entries have them, and is not ok with others.
func request(args []string) (q wire.Credential, ok bool) {
	if len(args) == 0 || args[0] != "credential" {
		return q, false
	}
	args = args[1:]
	if len(args) == 4 && args[2] == "--api-version" {
		q.APIVersion, args = args[3], args[:2]
	}
	switch len(args) {
	case 0: // the environment names the enrollment
		return q, true
	case 1:
		q.Enrollment, ok = strings.CutPrefix(args[0], "--enrollment=")
	case 2:
		q.Enrollment, ok = args[1], args[0] == "--enrollment"
	}
	return q, ok
}

// execute has kubehsm take the place of this program, the one at self. Terminal, environment and process ID stay
// the same, so kubectl sees one plugin.
func execute(self, kubehsm string, args []string) error {
	const both = "\nhint: install kubehsm and kubehsm-credential of one release in one folder"
	file, err := os.Stat(kubehsm)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing%s", kubehsm, both)
	}
	if this, serr := os.Stat(self); err == nil && serr == nil && os.SameFile(this, file) {
		return fmt.Errorf("%s is kubehsm-credential under another name%s", kubehsm, both)
	}
	err = unix.Exec(kubehsm, append([]string{kubehsm}, args...), os.Environ())
	if errors.Is(err, fs.ErrNotExist) { // the file is there
		return fmt.Errorf("%s cannot be started: the dynamic loader that it was built for is missing\nhint: build "+
			"kubehsm on this system", kubehsm)
	}
	return fmt.Errorf("execute %s: %w", kubehsm, err)
}
