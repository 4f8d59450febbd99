package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrRunning is an error of [Start].
var ErrRunning = errors.New("a cluster runs in this folder already")

// Options say what to start. The zero value is a whole control plane that dies
// with this process.
type Options struct {
	// Bin is the folder that [Build] or [BuildWhole] returned; "" calls it.
	Bin string `json:"-"`
	// APIPort is the API server's port; 0 keeps the one that an earlier cluster
	// in this folder had, or picks a free one.
	APIPort int `json:"-"`
	// Whole is for measurements and Kubernetes' own suites: programs that were built
	// with optimizations, and every controller that upstream runs.
	Whole bool `json:"whole,omitempty"`
	// APIServerFlags and ControllersFlags are added to the command lines.
	APIServerFlags   []string `json:"apiServerFlags,omitempty"`
	ControllersFlags []string `json:"controllersFlags,omitempty"`
	// ClientCAs are authorities, in PEM, whose client certificates the API server accepts beside
	// those of its own.
	ClientCAs []byte `json:"clientCAs,omitempty"`
	// NoControllers leaves them out: requests are approved, but no certificate is issued.
	NoControllers bool `json:"noControllers,omitempty"`
	// Detached lets the processes live on after this one: see [Runs] and [StopDir].
	Detached bool `json:"detached,omitempty"`
}

// Cluster is a control plane. Its methods may be called from several goroutines.
type Cluster struct {
	dir string
	pki *pki

	mu    sync.Mutex
	state state
	procs map[Component]*process
}

// Start runs a control plane in dir, which is made if needed, and returns when
// it is ready. A dir that held a cluster before is continued with its data,
// authorities and API port. ctx bounds the start, not the life. On error
// everything that was started is stopped.
func Start(ctx context.Context, dir string, o Options) (*Cluster, error) {
	c, err := prepare(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	fixed := c.state.Ports.API
	for tries := 0; ; tries++ {
		if c.state.Ports, err = freePorts(fixed); err == nil {
			err = c.startAll(ctx)
		}
		if err == nil {
			return c, nil
		}
		// Between choosing a port and listening on it somebody else may take it.
		if !errors.Is(err, errPortTaken) || tries == 4 || (fixed != 0 && !portFree(fixed)) {
			return nil, fmt.Errorf("start a control plane: %w", err)
		}
	}
}

// prepare makes dir and its keys, and reads what an earlier cluster left.
func prepare(ctx context.Context, dir string, o Options) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	old, err := readState(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for name, id := range old.Processes {
		if id.Alive() {
			return nil, fmt.Errorf("%w: %s is process %d", ErrRunning, name, id.PID)
		}
	}
	if o.Bin == "" {
		if o.Bin, err = build(ctx, o.Whole, nil); err != nil {
			return nil, err
		}
	}
	if o.APIPort == 0 {
		o.APIPort = old.Ports.API
	}
	c := &Cluster{
		dir:   dir,
		state: state{Bin: o.Bin, Ports: ports{API: o.APIPort}, Options: o},
		procs: map[Component]*process{},
	}
	for _, d := range []string{dir, filepath.Join(dir, "log")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if c.pki, err = openPKI(filepath.Join(dir, "pki")); err != nil {
		return nil, err
	}
	if err := c.pki.issueAll(); err != nil {
		return nil, err
	}
	own, err := os.ReadFile(c.pki.ca.file)
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.clientCAFile(), append(own, o.ClientCAs...), 0o600)
}

// clientCAFile has the authorities of client certificates.
func (c *Cluster) clientCAFile() string { return filepath.Join(c.dir, "client-ca.crt") }

func (c *Cluster) startAll(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stopAll(context.WithoutCancel(ctx)))
		}
	}()
	// Written at each try: they name the API server's port.
	if err := c.writeLeafKubeconfig(c.AdminKubeconfig(), "test-admin", c.pki.admin); err != nil {
		return err
	}
	if err := c.writeLeafKubeconfig(c.managerKubeconfig(), "kube-controller-manager", c.pki.managerClient); err != nil {
		return err
	}
	for _, component := range components {
		if component == Kubelet || component == Controllers && c.state.Options.NoControllers {
			continue
		}
		if err := c.start(ctx, component); err != nil {
			return err
		}
	}
	return nil
}

// start runs component and waits until it is ready. c.mu is held.
func (c *Cluster) start(ctx context.Context, component Component) error {
	if p := c.procs[component]; p != nil && p.Alive() {
		return nil
	}
	log, err := os.OpenFile(c.logFile(component), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.state.Bin, c.program(component)), c.arguments(component)...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TMPDIR=" + c.dir}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := launch(cmd, c.state.Options.Detached)
	if err != nil {
		return fmt.Errorf("start %s: %w", component, err)
	}
	c.procs[component] = p
	if err := c.record(); err != nil {
		return errors.Join(err, c.kill(context.WithoutCancel(ctx), component))
	}
	if err := c.waitReady(ctx, component, p); err != nil {
		return errors.Join(err, c.kill(context.WithoutCancel(ctx), component))
	}
	return nil
}

// kill ends component at once. c.mu is held.
//
// The API server is never asked politely: it would drain open watches for 20 s.
func (c *Cluster) kill(ctx context.Context, component Component) error {
	p := c.procs[component]
	if p == nil {
		return nil
	}
	stop := func() error { return p.stop(ctx, syscall.SIGKILL) }
	if component == Etcd { // etcd must write its data
		stop = func() error { return p.end(ctx, 10*time.Second) }
	}
	if err := stop(); err != nil {
		return fmt.Errorf("stop %s: %w", component, err)
	}
	delete(c.procs, component)
	return c.record()
}

// record writes the cluster's state. c.mu is held.
func (c *Cluster) record() error {
	c.state.Processes = map[string]Ident{}
	for component, p := range c.procs {
		c.state.Processes[string(component)] = p.Ident
	}
	if err := c.state.write(c.dir); err != nil {
		return fmt.Errorf("record the cluster's processes: %w", err)
	}
	return nil
}

// Stop ends every process of the cluster. Its folder stays as it is.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopAll(ctx)
}

func (c *Cluster) stopAll(ctx context.Context) error {
	var errs []error
	for component := range c.state.Added { // before the etcd that they are clients of
		errs = append(errs, c.kill(ctx, component))
	}
	for _, component := range slices.Backward(components) {
		errs = append(errs, c.kill(ctx, component))
	}
	return errors.Join(errs...)
}

// StopAPIServer kills the API server at once, as a crash would.
func (c *Cluster) StopAPIServer(ctx context.Context) error { return c.stopOne(ctx, APIServer) }

// StartAPIServer starts the API server on its old port and waits until it is
// ready. It does nothing if it runs.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.startOne(ctx, APIServer) }

// RestartAPIServer is [Cluster.StopAPIServer] and [Cluster.StartAPIServer].
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// StopControllers kills the controllers: no certificate is issued any more.
func (c *Cluster) StopControllers(ctx context.Context) error { return c.stopOne(ctx, Controllers) }

// StartControllers starts the controllers, also where [Options.NoControllers] left
// them out.
func (c *Cluster) StartControllers(ctx context.Context) error { return c.startOne(ctx, Controllers) }

func (c *Cluster) stopOne(ctx context.Context, component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill(ctx, component)
}

func (c *Cluster) startOne(ctx context.Context, component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tries := 0; ; tries++ {
		err := c.start(ctx, component)
		if !errors.Is(err, errPortTaken) || tries == 20 {
			return err
		}
		// The one before it has ended, but for a thread that holds its port.
		select {
		case <-ctx.Done():
			return err
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Dir is the cluster's folder.
func (c *Cluster) Dir() string { return c.dir }

// logTail returns the last lines of component's output.
func (c *Cluster) logTail(component Component, lines int) string {
	b, err := os.ReadFile(c.logFile(component))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
