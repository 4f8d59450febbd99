// Package early answers kubectl before the rest of the program is initialized,
// when the agent has the answer at hand. kubectl starts kubehsm for every
// command, and half of that start would be spent on setting up packages that
// such an answer does not need. Go initializes packages in the order of their
// import paths as soon as what they import is ready (Go specification, "Program
// initialization"), so this one comes before most others as long as it imports
// little; a test holds it to that. The standard library's net and crypto are ready
// last of all, as they import vendored packages.
//
// Whenever the answer is not at hand, for whatever reason, it leaves everything to
// the command of that name (ui/cli), which also finds the words.
//
// Only this package, ui/signer/early and ui/worker/early do work in init.
package early

import (
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/agent/quick"
	"github.com/kubehsm/kubehsm/plugin/home/place"
)

func init() {
	if len(os.Args) < 2 || os.Args[1] != "credential" {
		return
	}
	name, ok := enrollmentName(os.Args[2:])
	if !ok {
		return
	}
	info := os.Getenv("KUBERNETES_EXEC_INFO")
	dirs, err := place.FromEnv(os.Getenv)
	if err != nil || info == "" {
		return
	}
	answer := quick.Credential(dirs.Socket(), name, info)
	if answer == nil {
		return
	}
	_, err = os.Stdout.Write(answer)
	clear(answer)
	if err != nil {
		// where nobody reads that either, the exit code says it
		_, _ = os.Stderr.WriteString("error: write exec credential: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// enrollmentName reads arguments as kubeconfig entries write them; others are left to
// the command. The version that they name matters only where the client sends no
// request, which is left to the command too.
func enrollmentName(args []string) (name string, ok bool) {
	if len(args) == 4 && args[2] == "--api-version" {
		args = args[:2]
	}
	switch len(args) {
	case 0:
		return "", true
	case 1:
		return strings.CutPrefix(args[0], "--enrollment=")
	case 2:
		return args[1], args[0] == "--enrollment"
	}
	return "", false
}
