package contexts

import (
	"context"
	"sync"

	"github.com/kubehsm/kubehsm/kubeconfig"
)

// View is one kubeconfig context, as a screen or table shows it. Its
// text comes from files: clean it before printing.
type View struct {
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	Server    string `json:"server"`
	User      string `json:"user"`
	UserKind  string `json:"userKind"` // a [kubeconfig.UserKind]
	Namespace string `json:"namespace,omitempty"`
	File      string `json:"file"`
	Current   bool   `json:"current"`
	// Ours: the user is kubehsm; Enrollment is its name.
	Ours       bool   `json:"ours"`
	Enrollment string `json:"enrollment,omitempty"`
	// Spares are the names of its spares.
	Spares []string `json:"spares,omitempty"`
	// APIServer is the real API server of a context of ours, whose Server is the
	// bridge's address.
	APIServer string `json:"apiServer,omitempty"`
}

// List lists the contexts of the kubeconfig files.
func (k Contexts) List(ctx context.Context) ([]View, error) {
	var servers map[string]string
	var spares map[string][]string
	var reading sync.WaitGroup
	reading.Go(func() {
		servers, spares, _ = k.env.Enrollments().Servers() // a record that cannot be read is told of where it is used
	})
	views, err := kubeconfig.ListAs(ctx, k.env.Rules(), viewOf)
	reading.Wait()
	for i := range views {
		if v := &views[i]; v.Ours {
			v.APIServer, v.Spares = servers[v.Enrollment], spares[v.Enrollment]
		}
	}
	return views, err
}

func viewOf(c kubeconfig.Context) View {
	return View{
		Name: c.Name, Cluster: c.Cluster.Name, Server: c.Cluster.Server,
		User: c.User.Name, UserKind: string(c.User.Kind), Namespace: c.Namespace,
		File: c.File, Current: c.Current,
		Ours:       c.User.Ours(),
		Enrollment: c.User.Enrollment,
	}
}

// Use plans to make the context called name the current one.
func (k Contexts) Use(ctx context.Context, name string) (*Change, error) {
	plan, err := k.env.Rules().PlanUse(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Change{from: k, plan: plan}, nil
}
