package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/kuberc"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// kubectl looks at the kubectl that the shell finds, and at the one of programs
// that no shell started. It runs each once, for its version.
func kubectl(ctx context.Context, o *Options) []Check {
	c := Check{ID: "kubectl", Group: GroupKubectl, Title: "kubectl"}
	found := everywhere("kubectl", o.Getenv("PATH"))
	if len(found) == 0 {
		return []Check{c.with(Note, "not on the PATH", "Other programs that read a kubeconfig work without it.",
			"install kubectl: https://kubernetes.io/docs/tasks/tools/"), own(o), policy(ctx, o)}
	}
	c = c.judged(ctx, found[0])
	if len(found) > 1 && c.State == OK {
		c = c.with(Note, c.Found+"; "+strings.Join(found[1:], ", ")+" behind it on the PATH",
			"Another program may find another kubectl.", "")
	}
	return []Check{c, desktop(ctx, found[0], o.barePath), own(o), policy(ctx, o)}
}

// judged is c for the kubectl at path.
func (c Check) judged(ctx context.Context, path string) Check {
	v, err := kubectlVersion(ctx, path)
	switch {
	case err != nil:
		return c.with(Warning, fmt.Sprintf("%s: %s", path, err), "Its version is not known.",
			"run `"+shell.Quote(path)+" version --client` and see")
	case v.minor() < 20 && v.Major == "1":
		return c.with(Failed, path+" "+v.GitVersion, "Before 1.20 kubectl does not tell plugins which cluster is meant.",
			"install kubectl 1.20 or later")
	}
	return c.ok(path + " " + v.GitVersion)
}

// desktop looks for kubectl as an editor does that was started by a click: it
// has the system's PATH and nothing that a shell's start-up files add.
func desktop(ctx context.Context, shells, barePath string) Check {
	c := Check{ID: "kubectl-desktop", Group: GroupKubectl, Title: "kubectl for desktop programs"}
	found := everywhere("kubectl", barePath)
	switch {
	case len(found) == 0 && runtime.GOOS == "darwin":
		return c.with(Note, "not in "+barePath,
			"Programs of the desktop have only that PATH: those that call kubectl do not find it.",
			"sudo launchctl config user path "+shell.Quote(filepath.Dir(shells)+":"+barePath)+", then restart")
	case len(found) == 0:
		return c.with(Note, "not in "+barePath,
			"Programs of the desktop have only that PATH: those that call kubectl do not find it.",
			"sudo ln -s "+shell.Quote(shells)+" /usr/local/bin/kubectl")
	case env.SameFile(found[0], shells):
		return c.ok(found[0])
	}
	if c = c.judged(ctx, found[0]); c.State == Failed {
		c.State = Warning // the shell has a better one
	}
	return c
}

type kubectlBuild struct {
	Major      string `json:"major"`
	Minor      string `json:"minor"`
	GitVersion string `json:"gitVersion"`
}

// minor is the number in "27+".
func (b kubectlBuild) minor() int {
	n, err := strconv.Atoi(strings.TrimRight(b.Minor, "+"))
	if err != nil {
		return 0
	}
	return n
}

func kubectlVersion(ctx context.Context, path string) (kubectlBuild, error) {
	cmd := exec.CommandContext(ctx, path, "version", "--client", "-o", "json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
	out, err := cmd.Output()
	if err != nil {
		return kubectlBuild{}, err
	}
	var doc struct {
		ClientVersion kubectlBuild `json:"clientVersion"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return kubectlBuild{}, fmt.Errorf("its version is no JSON: %w", err)
	}
	return doc.ClientVersion, nil
}

// own tells whether the shell finds this program. The kubeconfig names it by
// its full path, so that programs with a bare PATH find it too.
func own(o *Options) Check {
	c := Check{ID: "path", Group: GroupKubectl, Title: "kubehsm on the PATH"}
	found := everywhere("kubehsm", o.Getenv("PATH"))
	if len(found) == 0 {
		return c.with(Note, "not on the PATH", "Kubeconfig entries name "+o.Env.Plugin()+
			" in full, so kubectl finds it; hints that say `kubehsm` need the PATH.",
			installFix(runtime.GOOS, o.Env.Named(), o.Env.Plugin()))
	}
	if !env.SameFile(found[0], o.Env.Executable) {
		return c.with(Note, found[0]+" is another file than this program, "+o.Env.Executable,
			"Two versions may be in use under one name.", "")
	}
	return c.ok(found[0])
}

// installFix puts the program at path on the PATH of a system, and plugin, which kubectl runs, beside it. On
// Windows each user has a folder for that, and PowerShell reads the command.
func installFix(goos, path, plugin string) string {
	if goos == "windows" {
		return "copy '" + strings.ReplaceAll(path, "'", "''") + `' "$env:LOCALAPPDATA\Microsoft\WindowsApps\kubehsm.exe"`
	}
	if plugin != path {
		return "sudo install " + shell.Quote(path) + " " + shell.Quote(plugin) + " /usr/local/bin"
	}
	return "sudo install " + shell.Quote(path) + " /usr/local/bin/kubehsm"
}

// everywhere lists the executables of that name on the PATH, the first first,
// each file once.
func everywhere(name, path string) []string {
	var found []string
next:
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		at, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		for _, f := range found {
			if env.SameFile(f, at) {
				continue next
			}
		}
		found = append(found, at)
	}
	return found
}

// policy tells whether kubectl's own settings let it run the programs that its entries name.
func policy(ctx context.Context, o *Options) Check {
	c := Check{ID: "kuberc", Group: GroupKubectl, Title: "kuberc"}
	p, err := kuberc.ReadPluginPolicy(o.Getenv)
	if err != nil {
		return c.with(Warning, err.Error(), "kubectl may refuse to run plugins.",
			fixOr(err, "correct the file, or remove it"))
	}
	var commands []string
	contexts, _ := o.Env.Rules().List(ctx) // [kubeconfigs] tells of files that cannot be read
	for _, k := range contexts {
		if k.User.Kind == kubeconfig.UserOurs && !slices.Contains(commands, k.User.Command) {
			commands = append(commands, k.User.Command)
		}
	}
	if len(commands) == 0 {
		commands = []string{o.Env.Plugin()}
	}
	for _, command := range commands {
		if !p.Allows(command) {
			return c.with(Failed, "its credential plugin policy does not allow "+command, "kubectl refuses to start it.",
				p.Allowing(command))
		}
	}
	return c.ok("kubectl may run " + strings.Join(commands, " and "))
}
