package flow

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"k8s.io/client-go/rest"
)

// ContextView is one kubeconfig context, as a screen or table shows it. Its
// text comes from files: clean it before printing.
type ContextView struct {
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	Server    string `json:"server"`
	User      string `json:"user"`
	UserKind  string `json:"userKind"` // see [kubeconfig.UserKind]
	Namespace string `json:"namespace,omitempty"`
	File      string `json:"file"`
	Current   bool   `json:"current"`
	// Ours: the user is kubehsm; Enrollment is its name.
	Ours       bool   `json:"ours"`
	Enrollment string `json:"enrollment,omitempty"`
	// APIServer is the real API server of a context of ours, whose Server is the
	// bridge's address.
	APIServer string `json:"apiServer,omitempty"`
}

func (e *Env) rules() kubeconfig.Rules {
	r := kubeconfig.DefaultRules(e.Kubeconfig)
	r.Cluster = e.Cluster
	return r
}

// Contexts lists the contexts of the kubeconfig files.
func (e *Env) Contexts(ctx context.Context) ([]ContextView, error) {
	list, err := e.Rules().List(ctx)
	views := make([]ContextView, 0, len(list))
	servers := e.apiServers()
	for _, c := range list {
		v := viewContext(c)
		if v.Ours {
			v.APIServer = servers[v.Enrollment]
		}
		views = append(views, v)
	}
	return views, err
}

// apiServers are the API servers of the enrolments. What cannot be read is told
// where it is used.
func (e *Env) apiServers() map[string]string {
	all, _ := e.Enrollments().List() // those that could be read
	servers := make(map[string]string, len(all))
	for _, en := range all {
		servers[en.Name] = en.Cluster.Server
	}
	return servers
}

func viewContext(c kubeconfig.Context) ContextView {
	return ContextView{
		Name: c.Name, Cluster: c.Cluster.Name, Server: c.Cluster.Server,
		User: c.User.Name, UserKind: string(c.User.Kind), Namespace: c.Namespace,
		File: c.File, Current: c.Current,
		Ours:       c.User.Kind == kubeconfig.UserOurs || c.User.Kind == kubeconfig.UserExternalSigner && c.User.Enrollment != "",
		Enrollment: c.User.Enrollment,
	}
}

// UseContext plans to make the context called name the current one.
func (e *Env) UseContext(ctx context.Context, name string) (*KubeconfigChange, error) {
	plan, err := e.Rules().PlanUse(ctx, name)
	if err != nil {
		return nil, err
	}
	return &KubeconfigChange{env: e, plan: plan}, nil
}

// client speaks to the cluster of a context, as its user; "" is the current one.
func (e *Env) client(ctx context.Context, name string) (*csr.Client, error) {
	return e.clientOf(ctx, e.Rules(), name)
}

// clientOf is client for other kubeconfig files.
func (e *Env) clientOf(ctx context.Context, rules kubeconfig.Rules, name string) (*csr.Client, error) {
	config, err := e.configOf(ctx, rules, name)
	if err != nil {
		return nil, err
	}
	return csr.NewClient(config)
}

// config says how to connect to the cluster of a context, as its user; "" is
// the current one.
func (e *Env) config(ctx context.Context, name string) (*rest.Config, error) {
	return e.configOf(ctx, e.Rules(), name)
}

// configOf is config for other kubeconfig files. A context that is kubehsm's
// own signs in here, through the agent: run as a plugin below ourselves, its
// words and exit code would be lost.
func (e *Env) configOf(ctx context.Context, rules kubeconfig.Rules, name string) (*rest.Config, error) {
	c, err := rules.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if viewContext(c).Ours && c.Cluster.Ours {
		ctx = hsm.WithPurpose(ctx, hsm.Purpose{Cluster: c.User.Enrollment, Action: "sign in"})
		return e.bridgeConfig(ctx, c.User.Enrollment, e.Prompter)
	}
	config, err := rules.RESTConfig(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	config.Timeout = e.RequestTimeout
	return config, nil
}

// cluster reads the endpoint of a context's cluster into j. A cluster entry
// that already is kubehsm's names the bridge, not a cluster: it is followed to
// the enrolment it came from.
func (e *Env) cluster(ctx context.Context, j *Journal) error {
	c, err := e.Rules().Get(ctx, j.Options.Context)
	if err != nil {
		return err
	}
	j.Namespace = c.Namespace
	switch {
	case c.Cluster.Missing:
		return fmt.Errorf("context %q names a cluster %q that is not in the kubeconfig", c.Name, c.Cluster.Name)
	case c.Cluster.Ours:
		from, err := e.Enrollments().Load(c.User.Enrollment)
		if err != nil {
			return err
		}
		if from.Cluster.InsecureSkipTLSVerify && from.Name != j.Options.Name {
			if err := j.Options.acceptsUnverified(c.Name, from.Cluster.Server); err != nil {
				return err
			}
		}
		j.Cluster = from.Cluster
		return nil
	case c.Cluster.InsecureSkipTLSVerify:
		if err := j.Options.acceptsUnverified(c.Name, c.Cluster.Server); err != nil {
			return err
		}
	}
	ca, err := c.Cluster.CA()
	if err != nil {
		return err
	}
	j.Cluster.Server, j.Cluster.CAData = c.Cluster.Server, ca
	j.Cluster.InsecureSkipTLSVerify = c.Cluster.InsecureSkipTLSVerify
	j.Cluster.TLSServerName, j.Cluster.ProxyURL = c.Cluster.TLSServerName, c.Cluster.ProxyURL
	j.Cluster.DisableCompression = c.Cluster.DisableCompression
	return nil
}
