package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// clusterRights are what a trial makes in a cluster that is there already.
//
//go:embed cluster_rights.yaml
var clusterRights string

// existing is a cluster that the trial did not make, and what it makes there.
type existing struct {
	// Context is the user's context, whose user makes and removes it all.
	Context string `json:"context"`
	// Name is the namespace, the cluster role and the group.
	Name string `json:"name"`
}

// existing returns the cluster that the trial uses; nil if it has its own.
func (t *trial) existing() (*existing, error) {
	b, err := os.ReadFile(t.existingFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var e existing
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	return &e, err
}

// choose has the trial use the cluster of a context of the user's kubeconfig; ""
// goes on as it was begun.
func (t *trial) choose(name string) error {
	e, err := t.existing()
	if err != nil || name == "" {
		return err
	}
	_, err = os.Stat(t.backgroundFile())
	switch own := err == nil; {
	case own:
		return hint.With(errors.New("the trial has a cluster of its own already"),
			"`make demo` without DEMO_CONTEXT goes on with it; `make demo-down` removes it")
	case e != nil && e.Context != name:
		return hint.With(fmt.Errorf("the trial uses the context %q already", e.Context), "`make demo-down` removes it")
	case e != nil:
		return nil
	}
	id := make([]byte, 3)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	if err := t.writeAdmin(name); err != nil {
		return err
	}
	b, err := json.Marshal(existing{Context: name, Name: "kubehsm-demo-" + hex.EncodeToString(id)})
	if err != nil {
		return err
	}
	return os.WriteFile(t.existingFile(), b, 0o600)
}

// writeAdmin copies a context of the user's kubeconfig, with all that it needs,
// into a file of the trial's.
func (t *trial) writeAdmin(name string) error {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return err
	}
	if config.Contexts[name] == nil {
		return hint.Withf(fmt.Errorf("your kubeconfig has no context %q", name), "it has: %s",
			strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", "))
	}
	config.CurrentContext = name
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return err
	}
	if err := api.MinifyConfig(config); err != nil {
		return err
	}
	if err := api.FlattenConfig(config); err != nil {
		return err
	}
	config.Contexts = map[string]*api.Context{contextIn: config.Contexts[name]}
	config.CurrentContext = contextIn
	return clientcmd.WriteToFile(*config, t.adminKubeconfig())
}

// equip makes in the cluster what the trial needs, and the kubeconfig of its user.
func (e *existing) equip(ctx context.Context, t *trial) error {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return hint.With(errors.New("there is no kubectl on PATH"),
			"install it, or run `make demo` without DEMO_CONTEXT, which builds one")
	}
	if err := os.Remove(t.kubectl()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(kubectl, t.kubectl()); err != nil {
		return err
	}
	fmt.Printf("  In the cluster of your context %q the trial makes, and `make demo-down` removes:\n"+
		"  the namespace, the cluster role and its binding %s, and certificate requests.\n", e.Context, e.Name)
	if interactive() {
		if err := pressEnter(ctx, "make them"); err != nil {
			return err
		}
	}
	apply := e.admin(ctx, t, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(strings.ReplaceAll(clusterRights, "NAME", e.Name))
	if err := apply.shown(); err != nil {
		return hint.Withf(err, "the context's user must be allowed to make cluster roles and to approve certificate "+
			"requests; `make demo-down` removes what was made")
	}
	token, err := e.admin(ctx, t, "create", "token", "bootstrap", "--namespace", e.Name, "--duration", "24h").output()
	if err != nil {
		return err
	}
	return e.writeUser(t, strings.TrimSpace(string(token)))
}

// writeUser gives the user of the trial's kubeconfig a new token. What an enrollment
// wrote there stays.
func (e *existing) writeUser(t *trial, token string) error {
	config, err := clientcmd.LoadFromFile(t.kubeconfig())
	if errors.Is(err, os.ErrNotExist) {
		config, err = clientcmd.LoadFromFile(t.adminKubeconfig())
		if err != nil {
			return err
		}
		config.AuthInfos = map[string]*api.AuthInfo{}
		config.Contexts[contextIn].AuthInfo = "trial-bootstrap"
		config.Contexts[contextIn].Namespace = e.Name
	}
	if err != nil {
		return err
	}
	config.AuthInfos["trial-bootstrap"] = &api.AuthInfo{Token: token}
	return clientcmd.WriteToFile(*config, t.kubeconfig())
}

// admin is kubectl as the user of the context.
func (e *existing) admin(ctx context.Context, t *trial, args ...string) *command {
	return t.command(ctx, t.kubectl(), append([]string{"--kubeconfig", t.adminKubeconfig()}, args...)...)
}

// forget removes from the cluster what the trial made there.
func forget(ctx context.Context, t *trial) error {
	e, err := t.existing()
	if err != nil || e == nil {
		return err
	}
	if _, err := os.Lstat(t.kubectl()); errors.Is(err, os.ErrNotExist) {
		return nil // the demo has made nothing yet
	}
	fmt.Printf("removing what the trial made in the cluster of the context %q\n", e.Context)
	requests, err := e.admin(ctx, t, "get", "certificatesigningrequests", "-o", fmt.Sprintf(
		`jsonpath={.items[?(@.spec.username=="system:serviceaccount:%s:bootstrap")].metadata.name}`, e.Name)).output()
	if err != nil {
		return err
	}
	what := []string{"namespace/" + e.Name, "clusterrolebinding/" + e.Name, "clusterrole/" + e.Name}
	for _, name := range strings.Fields(string(requests)) {
		what = append(what, "certificatesigningrequest/"+name)
	}
	return e.admin(ctx, t, append([]string{"delete", "--ignore-not-found", "--timeout=2m"}, what...)...).shown()
}

// group is the group of the trial's user.
func (t *trial) group() (string, error) {
	e, err := t.existing()
	if err != nil || e == nil {
		return trialGroup, err
	}
	return e.Name, nil
}

// provideCluster has a cluster ready, or on its way.
func provideCluster(ctx context.Context, t *trial) error {
	e, err := t.existing()
	if err != nil {
		return err
	}
	if e != nil {
		if err := e.equip(ctx, t); err != nil {
			return err
		}
		return status{trial: t}.set(phaseReady, 0, 0, "the cluster is ready")
	}
	if err := ensureCluster(ctx, t); err != nil {
		return err
	}
	fmt.Println("  a control plane, compiled from its published modules if need be (this takes minutes the first time)")
	return nil
}
