package contexts

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/kuberc"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// backups keeps what is needed to take kubeconfig changes back.
func (k Contexts) backups() kubeconfig.Backups {
	return kubeconfig.Backups(filepath.Join(k.env.Dirs.State, "kubeconfig"))
}

// entry is the kubeconfig entry of an enrollment: its cluster is the bridge, its
// user kubehsm as exec plugin. Its version serves every kubectl from 1.20
// on: older ones refuse v1. The arguments repeat the version and the enrollment
// and the environment has a request, as some clients hand no cluster information
// to the plugin, and others no request at all.
func (k Contexts) entry(en enrollment.Enrollment, setCurrent bool) (kubeconfig.Entry, error) {
	endpoint, err := k.env.Bridge()
	if err != nil {
		return kubeconfig.Entry{}, err
	}
	exec := &kubeconfig.Exec{
		APIVersion: execcredential.V1beta1, Command: cmp.Or(k.command, k.env.Plugin()),
		Args: []string{"credential", "--enrollment", en.Name, "--api-version", path.Base(execcredential.V1beta1)},
		Env: []kubeconfig.EnvVar{
			{Name: execcredential.EnvVar, Value: execcredential.Minimal(execcredential.V1beta1)},
		},
		InteractiveMode: "IfAvailable", ProvideClusterInfo: true,
		InstallHint: "kubehsm is not at this path: install it, or enroll again",
	}
	if k.env.Dirs.Home != "" {
		exec.Env = append(exec.Env, kubeconfig.EnvVar{Name: home.EnvHome, Value: k.env.Dirs.Home})
	}
	return kubeconfig.Entry{
		Name: en.Name,
		Cluster: cluster.Cluster{
			Server: endpoint.URL(en.Name), CAData: endpoint.CAPEM,
			DisableCompression: en.Cluster.DisableCompression},
		Extension: map[string]any{"enrollment": en.Name, "server": en.Cluster.Server},
		Exec:      exec, Namespace: en.Namespace, SetCurrent: setCurrent,
	}, nil
}

// Change is a change of the kubeconfig files, looked at before it is made.
type Change struct {
	from Contexts
	plan *kubeconfig.Plan
}

// Empty tells whether everything is as wanted already.
func (c *Change) Empty() bool { return c.plan.Empty() }

// Diff is a unified diff, secrets redacted. It is raw: clean it before printing.
func (c *Change) Diff() string { return c.plan.Diff() }

// Notes are remarks, a line each, raw.
func (c *Change) Notes() []string { return c.plan.Notes }

// Files are the paths that would be written.
func (c *Change) Files() []string {
	var out []string
	for _, f := range c.plan.Files() {
		out = append(out, f.Path)
	}
	return out
}

// Writable is the error with which Apply would refuse to write, as far as that can be told
// beforehand.
func (c *Change) Writable() error { return c.plan.Writable() }

// Apply makes the change, all of it or none. Where there is none to make, it removes
// what a killed process has left.
func (c *Change) Apply(ctx context.Context) error {
	if !c.plan.Empty() {
		if err := home.MakeDir(string(c.from.backups())); err != nil {
			return err
		}
	}
	return c.plan.Apply(ctx, c.from.backups())
}

// Set plans the entry of the enrollment called name.
func (k Contexts) Set(ctx context.Context, name string, setCurrent, replace bool) (*Change, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return nil, hint.With(err, "`kubehsm enroll` makes an enrollment")
	}
	if en.SpareOf != "" {
		return nil, hint.Withf(fmt.Errorf("%s is a spare of %s and has no context of its own", name, en.SpareOf),
			"`kubehsm kubeconfig set %s` writes the entry that they share", en.SpareOf)
	}
	return k.PlanEntry(ctx, en, setCurrent, replace)
}

// PlanEntry plans the entry of en, which need not be saved yet.
func (k Contexts) PlanEntry(ctx context.Context, en enrollment.Enrollment, setCurrent, replace bool) (*Change, error) {
	entry, err := k.entry(en, setCurrent)
	if err != nil {
		return nil, err
	}
	plan, err := k.env.Rules().Plan(ctx, entry, kubeconfig.Options{Replace: replace})
	if err != nil {
		return nil, err
	}
	plan.Notes = append(plan.Notes, pluginNotes(entry.Exec.Command)...)
	return &Change{from: k, plan: plan}, nil
}

// pluginNotes say what keeps kubectl from running command as exec plugin.
func pluginNotes(command string) []string {
	policy, err := kuberc.ReadPluginPolicy(os.Getenv)
	if err != nil {
		return []string{"whether kubectl's preferences allow this program cannot be told: " + err.Error()}
	}
	if fix := policy.Allowing(command); fix != "" {
		return []string{fmt.Sprintf("kubectl's preferences (%s, policy %s) do not allow this program; allow it with: %s",
			policy.File, policy.Policy, fix)}
	}
	return nil
}

// Remove plans to take the entry called name out, which must be
// kubehsm's.
func (k Contexts) Remove(ctx context.Context, name string) (*Change, error) {
	plan, err := k.env.Rules().PlanRemove(ctx, name, kubeconfig.Options{})
	if err != nil {
		return nil, err
	}
	return &Change{from: k, plan: plan}, nil
}

// Undo plans to take back the last change that was made to the kubeconfig files.
func (k Contexts) Undo(ctx context.Context) (*Change, error) {
	plan, err := k.env.Rules().PlanUndo(ctx, k.backups())
	if err != nil {
		return nil, err
	}
	return &Change{from: k, plan: plan}, nil
}

// KeptCurrent is the current context if it is the same user's on the same
// cluster as en, by another key that is still good: en is then the spare, and
// does not take its place. "" otherwise.
func (k Contexts) KeptCurrent(ctx context.Context, en enrollment.Enrollment) string {
	c, err := k.env.Rules().Get(ctx, "")
	if err != nil || !viewOf(c).Ours || c.User.Enrollment == en.Name {
		return "" // problems of the files are told where they are written
	}
	other, err := k.env.Enrollments().Load(c.User.Enrollment)
	if err != nil || other.User != en.User || other.Cluster.Server != en.Cluster.Server {
		return ""
	}
	chain, err := k.env.Enrollments().Certificate(other)
	if err != nil || time.Now().After(chain[0].NotAfter) {
		return ""
	}
	return c.Name
}

// KeptNote says that the context current stays the current one, and how name becomes it.
func KeptNote(current, name string) string {
	return fmt.Sprintf("the current context stays %q, which is the same user's on this cluster; "+
		"to change that: `kubehsm kubeconfig use %s`", current, name)
}
