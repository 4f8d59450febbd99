package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/ui/present"
)

// kubeconfigs looks at the kubeconfig files and at those of their entries that
// are ours.
func kubeconfigs(ctx context.Context, o *Options) []Check {
	rules := kubeconfig.DefaultRules(o.Env.Kubeconfig)
	contexts, err := rules.List(ctx)
	secret := map[string]bool{} // files that hold a key, a token or a password
	for _, k := range contexts {
		if slices.Contains([]kubeconfig.UserKind{kubeconfig.UserKeyData, kubeconfig.UserToken, kubeconfig.UserBasic},
			k.User.Kind) {
			secret[k.User.File] = true
		}
	}
	var checks []Check
	for _, path := range rules.Paths() {
		checks = append(checks, file(path, secret[path])...)
	}
	c := Check{ID: "contexts", Group: GroupKubeconfig, Title: "Contexts"}
	if err != nil {
		checks = append(checks, c.with(Failed, err.Error(), "kubectl cannot read it either.",
			fixOr(err, "correct the file; `kubehsm kubeconfig undo` takes back the last change of kubehsm")))
	} else {
		checks = append(checks, c.ok(fmt.Sprintf("%s in %s", present.Count(len(contexts), "context"),
			strings.Join(rules.Paths(), ", "))))
	}
	endpoint, endpointErr := loopback.Load(o.Env.Dirs)
	e := entries{store: enrollment.NewStore(o.Env.Dirs), usable: map[string]bool{}, commands: map[string]error{},
		endpoint: endpoint, err: endpointErr}
	e.plugin = o.Env.Plugin()
	enrolled, _ := o.enrollments() // [entries.check] tells what cannot be read
	for _, en := range enrolled {
		e.usable[en.Name] = true
	}
	for _, k := range contexts {
		switch k.User.Kind {
		case kubeconfig.UserOurs:
			checks = append(checks, e.check(k))
		case kubeconfig.UserKeyData, kubeconfig.UserKeyFile:
			checks = append(checks, Check{ID: "context/" + k.Name, Group: GroupKubeconfig, Title: "Context " + k.Name}.
				with(Note, "its private key is a file", "Any program that runs as you can copy it.",
					"kubehsm kubeconfig migrate "+shell.Quote(k.Name)))
		}
	}
	return checks
}

// file looks at one kubeconfig file, which holds a secret or none: who may read
// it, and a lock left behind.
func file(path string, secret bool) []Check {
	c := Check{ID: "file/" + path, Group: GroupKubeconfig, Title: "File " + path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Check{c.with(Note, "is not there", "kubectl leaves it out.", "")}
	case err != nil:
		return []Check{c.with(Failed, err.Error(), "kubectl cannot read it either.", "")}
	case !info.Mode().IsRegular():
		return []Check{c.with(Failed, "is no regular file", "It is neither read nor changed.", "name another in KUBECONFIG")}
	case info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows":
		c = c.with(Warning, fmt.Sprintf("mode %04o: other users may change it", info.Mode().Perm()),
			"A kubeconfig names programs that kubectl runs as you.", "chmod 600 "+shell.Quote(path))
	case info.Mode().Perm()&0o044 != 0 && secret && runtime.GOOS != "windows":
		c = c.with(Warning, fmt.Sprintf("mode %04o: other users may read it, and the key, token or password in it",
			info.Mode().Perm()), "Whoever reads it can sign in as you.", "chmod 600 "+shell.Quote(path))
	case info.Mode().Perm()&0o044 != 0 && runtime.GOOS != "windows":
		c = c.with(Note, fmt.Sprintf("mode %04o: other users may read it", info.Mode().Perm()),
			"Entries of other tools may hold tokens and keys; those of kubehsm do not.", "chmod 600 "+shell.Quote(path))
	case runtime.GOOS == "windows": // which has lists of its own instead of modes
		c = c.ok("is there")
	default:
		c = c.ok(fmt.Sprintf("mode %04o", info.Mode().Perm()))
	}
	lock := path + ".lock"
	held, err := os.Lstat(lock)
	if err != nil {
		return []Check{c}
	}
	age := time.Since(held.ModTime()).Round(time.Second)
	l := Check{ID: "lock/" + path, Group: GroupKubeconfig, Title: "Lock of " + path}
	if age < kubeconfig.StaleLock {
		return []Check{c, l.with(Note, "a program is writing the file", "Other programs wait until it has finished.", "")}
	}
	return []Check{c, l.with(Warning, fmt.Sprintf("%s was left behind %s ago", lock, age),
		"kubectl cannot change the file while the lock is there; kubehsm takes the lock over at its next change.",
		"if no kubectl is running: rm "+shell.Quote(lock))}
}

// entries is what contexts that sign in by kubehsm are held against.
type entries struct {
	store    enrollment.Store
	usable   map[string]bool  // the enrollments that can be read, by name
	commands map[string]error // commands that were looked up, and why they cannot be started
	endpoint loopback.Endpoint
	err      error  // why there is no endpoint
	plugin   string // command that new entries name
}

// runs tells whether command can be started: all entries name the same one or two.
func (e entries) runs(command string) error {
	err, known := e.commands[command]
	if !known {
		_, err = exec.LookPath(command)
		e.commands[command] = err
	}
	return err
}

// check looks at a context that signs in by kubehsm.
func (e entries) check(k kubeconfig.Context) Check {
	c := Check{ID: "context/" + k.Name, Group: GroupKubeconfig, Title: "Context " + k.Name}
	again := "kubehsm kubeconfig set " + shell.Quote(k.User.Enrollment)
	if !e.usable[k.User.Enrollment] {
		if _, err := e.store.Load(k.User.Enrollment); err != nil {
			return c.with(Failed, err.Error(), "kubehsm serves only what was enrolled on this machine.", fixOr(err, enrollAnew))
		}
	}
	if !filepath.IsAbs(k.User.Command) {
		return c.with(Warning, fmt.Sprintf("its command %q is no full path", k.User.Command),
			"Programs of the desktop have a bare PATH and do not find it.", again)
	}
	if err := e.runs(k.User.Command); err != nil {
		return c.with(Failed, err.Error(), "kubectl cannot start it.", again)
	}
	if e.err != nil && !errors.Is(e.err, fs.ErrNotExist) {
		return c.with(Failed, e.err.Error(), "kubectl reaches the cluster through the bridge.",
			fixOr(e.err, again))
	}
	if u, err := url.Parse(k.Cluster.Server); e.err == nil && (err != nil || u.Host != e.endpoint.Address()) {
		return c.with(Failed, fmt.Sprintf("it leads to %s; the bridge is at %s", k.Cluster.Server, e.endpoint.Address()),
			"kubectl would reach nothing, or another program.", again)
	}
	if e.err != nil {
		return c.with(Warning, "the bridge is not set up on this machine yet", "kubectl could not verify it.", again)
	}
	if found, why, state := verifies(k, e.endpoint); found != "" {
		return c.with(state, found, why, again)
	}
	if name := filepath.Base(k.User.Command); k.User.Kind == kubeconfig.UserOurs && name != execcredential.Program &&
		e.plugin == filepath.Join(filepath.Dir(k.User.Command), execcredential.Program) {
		return c.with(Note, "kubectl starts all of kubehsm for each command", e.plugin+" answers sooner.", again)
	}
	return c.ok("signs in by the enrollment " + k.User.Enrollment)
}

// verifies says what is wrong with how an entry verifies the bridge, if anything is.
func verifies(k kubeconfig.Context, endpoint loopback.Endpoint) (found, why string, state State) {
	authorities, err := k.Cluster.CA()
	if err != nil {
		return err.Error(), "kubectl cannot verify the bridge.", Failed
	}
	if !endpoint.KnownTo(authorities) {
		return "it does not know the bridge on this computer",
			"It was written on another computer, or before the bridge got another CA.", Failed
	}
	return "", "", OK
}
