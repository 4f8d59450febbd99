package controlplane

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// AddedAPIServer says how an API server that [Cluster.AddAPIServer] starts differs
// from the first. All serve the same data and trust the same clients; none knows
// the TLS session tickets of another.
type AddedAPIServer struct {
	// Flags are added to its command line.
	Flags []string `json:"flags,omitempty"`
	// NextCA gives it a certificate of the authority [Cluster.NextCAFile], as the
	// API servers of a cluster get one after the other when its authority is
	// replaced.
	NextCA bool `json:"nextCA,omitempty"`
	// Port is chosen when it starts.
	Port int `json:"port"`
}

// AddAPIServer starts one more API server and returns its URL once it is ready.
// It ends with the cluster.
func (c *Cluster) AddAPIServer(ctx context.Context, a AddedAPIServer) (url string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Added == nil {
		c.state.Added = map[Component]AddedAPIServer{}
	}
	component := Component(fmt.Sprintf("%s-%d", APIServer, len(c.state.Added)+2))
	for tries := 0; ; tries++ {
		if a.Port, err = freePort(nil); err != nil {
			return "", err
		}
		c.state.Added[component] = a
		if err = c.start(ctx, component); !errors.Is(err, errPortTaken) || tries == 4 {
			break
		}
	}
	if err != nil {
		delete(c.state.Added, component)
		return "", fmt.Errorf("add an API server: %w", err)
	}
	return loopback(a.Port), nil
}

// DrainAPIServer asks the API server that [Cluster.AddAPIServer] returned url for
// to end, as an update of a cluster does, and returns when it has.
func (c *Cluster) DrainAPIServer(ctx context.Context, url string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for component, a := range c.state.Added {
		if p := c.procs[component]; p != nil && loopback(a.Port) == url {
			if err := p.stop(ctx, syscall.SIGTERM); err != nil {
				return fmt.Errorf("drain %s: %w", component, err)
			}
			delete(c.procs, component)
			return c.record()
		}
	}
	return fmt.Errorf("drain: no API server runs at %s", url)
}

// NextCAFile is the file of the certificate authority (PEM) that will take the
// place of [Cluster.CAFile]'s.
func (c *Cluster) NextCAFile() string { return c.pki.nextCA.file }
