package doctor

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Options say what to look at.
type Options struct {
	Env *env.Env
	// Getenv is [os.Getenv], or a test's.
	Getenv func(string) string
	// Online has API servers asked for their time and version, for which no credential is
	// sent, and, where nobody has to be asked to sign in, who you are and for the policies with
	// revoked certificates, see [signIn] and [policies].
	Online bool
	// barePath is the PATH that no shell has added to.
	barePath string
	// enrollments reads the enrollments. All examinations of a run share what is read once.
	enrollments func() ([]enrollment.Enrollment, error)
}

func (o *Options) defaults() {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.barePath == "" {
		o.barePath = systemPath(runtime.GOOS, o.Getenv)
	}
	o.enrollments = sync.OnceValues(o.Env.Enrollments().List)
}

// systemPath is the PATH of what was not started by a shell: systemd's, that of
// launchd, or on Windows everybody's.
func systemPath(goos string, getenv func(string) string) string {
	switch goos {
	case "darwin":
		return "/usr/bin:/bin:/usr/sbin:/sbin"
	case "windows":
		return getenv("PATH")
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// patience bounds one examination: a driver or a server that hangs is a finding
// and not a reason to wait.
const patience = 15 * time.Second

// An examination looks at one area. It returns what it knows when ctx ends.
type examination struct {
	area Check // the check that reports a hang
	look func(context.Context, *Options) []Check
}

func examinations() []examination {
	return []examination{
		{Check{ID: "program", Group: GroupProgram, Title: "This program"}, program},
		{Check{ID: "tokens", Group: GroupTokens, Title: "Tokens"}, tokens},
		{Check{ID: "kubectl", Group: GroupKubectl, Title: "kubectl"}, kubectl},
		{Check{ID: "kubeconfig", Group: GroupKubeconfig, Title: "kubeconfig"}, kubeconfigs},
		{Check{ID: "agent", Group: GroupAgent, Title: "Agent"}, theAgent},
		{Check{ID: "clusters", Group: GroupClusters, Title: "Clusters"}, clusters},
		{Check{ID: "sign-in", Group: GroupClusters, Title: "Sign-in to clusters"}, signIn},
		{Check{ID: "revocation-policies", Group: GroupClusters, Title: "Policies with revoked certificates"}, policies},
	}
}

// Run looks at everything, all areas at once. report, if not nil, is told of
// each finding as it is made, never by two goroutines at a time; the result is
// in the order of the groups.
func Run(ctx context.Context, o Options, report func(Check)) []Check {
	o.defaults()
	all := examinations()
	found := make([][]Check, len(all))
	var telling sync.Mutex
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() {
			found[i] = e.bounded(ctx, &o)
			telling.Lock()
			defer telling.Unlock()
			for _, c := range found[i] {
				if report != nil {
					report(c)
				}
			}
		})
	}
	wg.Wait()
	var checks []Check
	for _, f := range found {
		checks = append(checks, f...)
	}
	return checks
}

// bounded examines, and gives up on what does not heed ctx: a vendor's library
// may hang for good.
func (e examination) bounded(ctx context.Context, o *Options) []Check {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := make(chan []Check, 1)
	go func() { done <- e.look(ctx, o) }()
	select {
	case checks := <-done:
		return checks
	case <-ctx.Done():
	}
	select {
	case checks := <-done: // the examination heeded ctx
		return checks
	case <-time.After(time.Second):
	}
	return []Check{e.area.with(Failed, "did not answer for "+span.Limit(patience),
		"Something that kubehsm depends on hangs; kubectl would wait for it too.",
		"run `kubehsm doctor` again; if it hangs again, `kubehsm token list` shows which token or library is at fault")}
}
