package loopback

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// The port is chosen below the ranges that systems give to outgoing
// connections and Kubernetes to NodePorts, so that it is still free tomorrow.
const (
	firstPort = 20000
	lastPort  = 29999
)

// folder is state/bridge, seen from one machine at one time:
//
//	port                 where the bridge listens, on every machine
//	machines/LABEL.json  the identity of the bridge on one machine, see [machineRecord]
type folder struct {
	state   string
	machine machine
	now     time.Time
}

func here(d home.Dirs) folder { return folder{d.State, thisMachine(), time.Now()} }

func (f folder) path(name string) string { return filepath.Join(f.state, "bridge", name) }

func (f folder) record(label string) string { return f.path(filepath.Join("machines", label+".json")) }

// Setup makes the bridge's identity on this machine, or reads the one that is there: a
// free port, which all machines that share the folder have in common, a P-256 authority,
// and one server certificate of it for 127.0.0.1, ::1 and localhost. The authority's key is
// never written down, and the server's sealed. Several processes may call it at once.
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
	lock := filelock.New(f.path("") + ".lock")
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil // nothing is written by that
}

// Move has the bridge listen on another port, 1024 to 65535, when it starts next;
// the identity stays. [ErrPortTaken] if somebody listens there.
func Move(d home.Dirs, port int) (Endpoint, error) {
	if port < 1024 || port > 65535 {
		return Endpoint{}, fmt.Errorf("move the bridge: port %d is not between 1024 and 65535", port)
	}
	ep, err := Setup(d)
	if err != nil || ep.Port == port {
		return ep, err
	}
	ep.Port = port
	l, err := Listen(ep)
	if err != nil {
		return Endpoint{}, err
	}
	if err := l.Close(); err != nil {
		return Endpoint{}, fmt.Errorf("move the bridge: %w", err)
	}
	f := here(d)
	release, err := f.lock()
	if err != nil {
		return Endpoint{}, fmt.Errorf("move the bridge: %w", err)
	}
	defer release()
	if err := f.writePort(port); err != nil {
		return Endpoint{}, fmt.Errorf("move the bridge: %w", err)
	}
	return ep, nil
}

// Load reads what [Setup] made. What is not set up on this machine is
// [fs.ErrNotExist]; what is damaged is an error with a hint, as a new identity would not
// fit the kubeconfigs.
func Load(d home.Dirs) (Endpoint, error) { return here(d).endpoint() }

// Port reads the bridge's port alone. Errors: [fs.ErrNotExist].
func Port(d home.Dirs) (Endpoint, error) {
	port, err := here(d).port()
	return Endpoint{Port: port}, err
}

func (f folder) endpoint() (Endpoint, error) {
	port, err := f.port()
	if err != nil {
		return Endpoint{}, err
	}
	mine, err := f.mine()
	if err != nil {
		return Endpoint{}, err
	}
	ep := Endpoint{Port: port, shown: mine.Identities[0].Authority, Ends: mine.Identities[0].ends(), at: f.now,
		Bound: f.machine.bound()}
	if len(mine.Identities) > 1 {
		ep.next = mine.Identities[1].Authority
	}
	all := mine.authorities(f.now)
	labels, err := record.Names(f.path("machines"))
	if err != nil {
		return Endpoint{}, err
	}
	own, err := f.machine.label()
	if err != nil {
		return Endpoint{}, err
	}
	for _, label := range labels {
		if label == own {
			continue
		}
		other, err := f.read(label)
		if err != nil {
			continue // a damaged or newer record stops that machine's bridge, not this one's
		}
		all = append(all, other.authorities(f.now)...)
	}
	slices.SortFunc(all, bytes.Compare) // entries are the same whoever writes them
	for _, der := range slices.CompactFunc(all, bytes.Equal) {
		ep.CAPEM = append(ep.CAPEM, CertificatePEM(der)...)
	}
	return ep, nil
}

// port reads the port. It has to be there if there is anything else.
func (f folder) port() (int, error) {
	b, err := home.ReadFile(f.path("port"), home.MaxFile, nil)
	if errors.Is(err, fs.ErrNotExist) {
		labels, unreadable := record.Names(f.path("machines"))
		if unreadable == nil && len(labels) == 0 {
			return 0, err
		}
		// create writes the port before the record that was seen: it may be there now
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
		"remove %s, then write the kubeconfig entries again with `kubehsm kubeconfig set`", f.path(""))
}

// damagedRecord is damaged for one machine's record.
func damagedRecord(path string, err error) error {
	if errors.Is(err, record.ErrNewer) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return hinting.Withf(fmt.Errorf("the bridge's identity is damaged: %s: %v", path, err),
		"remove %s, then write the kubeconfig entries again with `kubehsm kubeconfig set`", path)
}

// mine reads this machine's record. Errors: [fs.ErrNotExist].
func (f folder) mine() (machineRecord, error) {
	label, err := f.machine.label()
	if err != nil {
		return machineRecord{}, err
	}
	return f.read(label)
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
		if err := home.MakeDir(f.path("")); err != nil {
			return err
		}
		if err := f.writePort(port); err != nil {
			return err
		}
	}
	i, err := f.machine.newIdentity()
	if err != nil {
		return err
	}
	return f.write(machineRecord{[]identity{i}})
}

func (f folder) write(r machineRecord) error {
	label, err := f.machine.label()
	if err != nil {
		return err
	}
	return home.WriteRecord(f.record(label), format, r)
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

// Certificate is what the bridge shows on this machine. Errors: [fs.ErrNotExist].
func Certificate(d home.Dirs) (tls.Certificate, error) { return here(d).certificate() }

func (f folder) certificate() (tls.Certificate, error) {
	r, err := f.mine()
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := r.Identities[0].pair(f.machine)
	if err == nil && f.now.After(cert.Leaf.NotAfter) {
		return cert, fmt.Errorf("the bridge's certificate ended on %s", cert.Leaf.NotAfter.Format(time.DateOnly))
	}
	if err != nil {
		label, _ := f.machine.label() // found above
		err = damagedRecord(f.record(label), err)
	}
	return cert, err
}
