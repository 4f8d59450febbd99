package credential

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/entry"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/text"
)

// follow asks, where a kubeconfig says that the enrolled cluster has moved,
// whether to go there from now on. The yes is the new host, typed, as the kubeconfig
// may be anybody's; and what answers there must then show a certificate of the
// authority that was enrolled, or that the system trusts if that was enrolled. wrong is why the entry was refused,
// and is
// returned for any other reason, and where nobody can be asked.
func (c *Command) follow(ctx context.Context, dirs home.Dirs, asker hsm.Prompter, wrong error) error {
	var moved *entry.MovedError
	if !errors.As(wrong, &moved) {
		return wrong
	}
	env := &env.Env{Dirs: dirs}
	m, err := contexts.New(env).MoveServer(ctx, moved.Name, moved.Server)
	if err != nil {
		return hint.With(errors.Join(wrong, err), hint.Of(wrong))
	}
	yes, err := asker.Confirm(ctx, hsm.ConfirmPrompt{
		Question: "Use the address " + m.Host + " for " + m.Name + " from now on?",
		Detail: "The kubeconfig says that the cluster " + m.Name + " has moved.\n" +
			"You enrolled it at " + m.Old + "; the kubeconfig says " + m.New + ".\n" +
			"The new address is used only if the server there has " + m.Proof() + ".",
		Type: m.Host,
	})
	if errors.Is(err, hsm.ErrNoTerminal) {
		return wrong
	}
	if err != nil {
		return err
	}
	if !yes {
		return wrong
	}
	if err := m.Apply(ctx); err != nil {
		return err
	}
	// A note only: without it, the next command asks again.
	_, _ = io.WriteString(c.Stderr, text.Clean(m.Name+" uses the address "+m.Host+" from now on; `kubehsm kubeconfig set "+
		m.Name+"` updates your kubeconfig")+"\n")
	return nil
}

// rewrite has the kubeconfig entry of an enrollment name the address to which the agent has followed the cluster. Its
// former address is as good: what keeps the entry from being written is said once a day.
func (c *Command) rewrite(ctx context.Context, dirs home.Dirs, e enrollment.Enrollment) {
	written, err := contexts.Followed(ctx, &env.Env{Dirs: dirs, Executable: c.Executable, Version: c.Version}, e.Name)
	said := "the cluster " + e.Name + " has moved to " + e.Host() + ": your kubeconfig now names the new address"
	if err != nil {
		said = "the cluster " + e.Name + " has moved to " + e.Host() + ", and your kubeconfig could not be updated: " +
			err.Error() + "; `kubehsm kubeconfig set " + e.Name + "` updates it"
	}
	if written || expiry.OnceADay(expiry.Dir(dirs.State), expiry.Moved(e.Name), e.Created, time.Now()) && err != nil {
		_, _ = io.WriteString(c.Stderr, text.Clean(said)+"\n") // a note only: both addresses serve
	}
}
