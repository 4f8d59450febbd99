package loopback

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// The port is chosen below the ranges that systems give to outgoing
// connections and Kubernetes to NodePorts, so that it is still free tomorrow.
const (
	firstPort = 20000
	lastPort  = 29999
)

// folder is state/bridge:
//
//	port    where the bridge listens
//	ca.pem  the CA that vouches for it, with its key
type folder string

func here(d home.Dirs) folder { return folder(filepath.Join(d.State, "bridge")) }

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// Setup makes the bridge's port and CA, or reads those that are there. Several processes may
// call it at once.
func Setup(d home.Dirs) (Endpoint, error) {
	if err := d.Prepare(); err != nil { // also where it is made already: who may change it now counts
		return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
	}
	return here(d).setup()
}

func (f folder) setup() (Endpoint, error) {
	if ep, err := f.endpoint(); !errors.Is(err, fs.ErrNotExist) {
		return ep, err
	}
	release, err := f.lock()
	if err != nil {
		return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
	}
	defer release()
	ep, err := f.endpoint()
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.create(); err != nil {
			return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
		}
		ep, err = f.endpoint()
	}
	return ep, err
}

// lock keeps other processes from changing the folder until release is called.
func (f folder) lock() (release func(), err error) {
	lock := filelock.New(string(f) + ".lock")
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil // nothing is written by that
}

// Load reads what [Setup] made. What is not set up is [fs.ErrNotExist]; what is damaged is an
// error with a hint, as a new CA would not fit the kubeconfigs.
func Load(d home.Dirs) (Endpoint, error) { return here(d).endpoint() }

// Port reads the bridge's port alone. Errors: [fs.ErrNotExist].
func Port(d home.Dirs) (Endpoint, error) {
	port, err := here(d).port()
	return Endpoint{Port: port, folder: here(d)}, err
}

func (f folder) endpoint() (Endpoint, error) {
	port, err := f.port()
	if err != nil {
		return Endpoint{}, err
	}
	ca, err := f.ca()
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{Port: port, CAPEM: CertificatePEM(ca.Certificate.Raw), folder: f}, nil
}

// port reads the port. It has to be there if the CA is.
func (f folder) port() (int, error) {
	b, err := home.ReadFile(f.path("port"), home.MaxFile, nil)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Lstat(f.path("ca.pem")); errors.Is(missing, fs.ErrNotExist) {
			return 0, err
		}
		// create writes the port before the CA that was seen: it may be there now
		b, err = home.ReadFile(f.path("port"), home.MaxFile, nil)
	}
	if err != nil {
		return 0, f.damaged(err)
	}
	port, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || port < 1 || port > 65535 {
		return 0, f.damaged(fmt.Errorf("%q is not a port", b))
	}
	return port, nil
}

func (f folder) writePort(port int) error {
	return home.WriteFile(f.path("port"), []byte(strconv.Itoa(port)+"\n"))
}

// damaged is not wrapped around err: a file that is missing does not mean "not set up".
func (f folder) damaged(err error) error {
	return hinting.Withf(fmt.Errorf("the bridge's identity is damaged: %v", err),
		"%s", f.replace())
}

// replace is the step that gives the bridge another port and CA.
func (f folder) replace() string {
	return fmt.Sprintf("remove %s, then write the kubeconfig entries again with `kubehsm kubeconfig set`", string(f))
}

// create makes what is not there.
func (f folder) create() error {
	if _, err := f.port(); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		port, err := choosePort()
		if err != nil {
			return err
		}
		if err := home.MakeDir(string(f)); err != nil {
			return err
		}
		if err := f.writePort(port); err != nil {
			return err
		}
	}
	ca, err := newCA()
	if err != nil {
		return err
	}
	text, err := ca.encode()
	if err != nil {
		return err
	}
	defer clear(text)
	return home.WriteFile(f.path("ca.pem"), text)
}

// choosePort finds a loopback port that is free now.
func choosePort() (int, error) {
	var err error
	for range 100 {
		port := firstPort + mathrand.IntN(lastPort-firstPort+1)
		var l net.Listener
		if l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, err)
}
