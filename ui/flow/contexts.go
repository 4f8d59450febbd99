package flow

import (
	"context"

	"github.com/kubehsm/kubehsm/kubeconfig"
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
		Ours:       c.User.Ours(),
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
