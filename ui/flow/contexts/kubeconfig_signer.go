package contexts

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// How a kubeconfig entry signs in.
const (
	// ModeBridge is for every client: through the agent and its bridge.
	ModeBridge = "bridge"
	// ModeExternalSigner is for clients that have the auth provider
	// externalSigner: they reach the API server itself.
	ModeExternalSigner = "external-signer"
)

// SetSigner plans the entry of the enrollment called name as
// [Contexts.Set] does, in the mode [ModeExternalSigner].
func (k Contexts) SetSigner(ctx context.Context, name string, setCurrent, replace bool) (*Change, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return nil, hint.With(err, "`kubehsm enroll` makes an enrollment")
	}
	plan, err := k.env.Rules().Plan(ctx, k.signerEntry(en, setCurrent), kubeconfig.Options{Replace: replace})
	if err != nil {
		return nil, err
	}
	plan.Notes = append(plan.Notes,
		"stock kubectl has no auth provider externalSigner: docs/kubectl.md says which clients have it")
	if k.env.Dirs.Home != "" {
		plan.Notes = append(plan.Notes, fmt.Sprintf(
			"clients need %s=%s in their environment, for kubehsm to find what is enrolled", home.EnvHome, k.env.Dirs.Home))
	}
	return &Change{from: k, plan: plan}, nil
}

// signerEntry is the entry of a client that asks this program for signatures.
// The library stays in the URI: to look through all that the system knows would
// load each of them for every signature.
func (k Contexts) signerEntry(en enrollment.Enrollment, setCurrent bool) kubeconfig.Entry {
	key := en.Key
	key.PINSource = ""
	return kubeconfig.Entry{
		Name: en.Name, Cluster: en.Cluster,
		Extension: map[string]any{wire.KeyEnrollment: en.Name, "server": en.Cluster.Server},
		AuthProvider: &kubeconfig.AuthProvider{Name: wire.ProviderName, Config: map[string]string{
			wire.KeyPathExec: k.env.Named(), wire.KeyURI: key.String(), wire.KeyEnrollment: en.Name,
		}},
		Namespace: en.Namespace, SetCurrent: setCurrent,
	}
}
