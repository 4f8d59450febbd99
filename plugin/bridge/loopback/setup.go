package loopback

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// The port is chosen below the ranges that systems give to outgoing
// connections and Kubernetes to NodePorts, so that it is still free tomorrow.
const (
	firstPort = 20000
	lastPort  = 29999
)

// identityLife is how long the bridge's certificate holds. Its authority's key
// is gone at once, so nothing else can ever be vouched for.
const identityLife = 10 * 365 * 24 * time.Hour

// Setup makes the bridge's identity in state/bridge, or reads the one that is
// there: a free port, a P-256 authority, and one server certificate of it for
// 127.0.0.1, ::1 and localhost. The authority's key is never written down. A
// folder appears whole or not at all; several processes may call it at once.
func Setup(d home.Dirs) (Endpoint, error) {
	if err := d.Prepare(); err != nil { // also where it is made already: who may change it now counts
		return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
	}
	if ep, _, err := Load(d); !errors.Is(err, fs.ErrNotExist) {
		return ep, err
	}
	lock := flock.New(dir(d)+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
	}
	defer lock.Close()
	ep, _, err := Load(d)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(d); err != nil {
			return Endpoint{}, fmt.Errorf("set up the bridge: %w", err)
		}
		ep, _, err = Load(d)
	}
	return ep, err
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
	lock := flock.New(dir(d)+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return Endpoint{}, fmt.Errorf("move the bridge: %w", err)
	}
	defer lock.Close()
	if err := home.WriteFile(filepath.Join(dir(d), "port"), []byte(strconv.Itoa(port)+"\n")); err != nil {
		return Endpoint{}, fmt.Errorf("move the bridge: %w", err)
	}
	return ep, nil
}

// Load reads what [Setup] made. A missing folder is [fs.ErrNotExist]; a damaged
// one is an error with a hint, as a new identity would not fit the kubeconfigs.
func Load(d home.Dirs) (Endpoint, tls.Certificate, error) {
	if _, err := os.Stat(dir(d)); err != nil {
		return Endpoint{}, tls.Certificate{}, err
	}
	ep, cert, err := load(d)
	if err != nil {
		// The error is not wrapped: a file that is missing here does not mean "not set up".
		err = hinting.Withf(fmt.Errorf("the bridge's identity is damaged: %v", err),
			"remove %s, then write the kubeconfig entries again with `kubehsm kubeconfig set`", dir(d))
	}
	return ep, cert, err
}

func load(d home.Dirs) (Endpoint, tls.Certificate, error) {
	files := map[string][]byte{"port": nil, "ca.crt": nil, "server.crt": nil, "server.key": nil}
	for name := range files {
		path := filepath.Join(dir(d), name)
		if err := home.CheckFile(path); err != nil {
			return Endpoint{}, tls.Certificate{}, err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return Endpoint{}, tls.Certificate{}, err
		}
		files[name] = b
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(files["port"])))
	if err != nil || port < 1 || port > 65535 {
		return Endpoint{}, tls.Certificate{}, fmt.Errorf("%q is not a port", files["port"])
	}
	cert, err := tls.X509KeyPair(files["server.crt"], files["server.key"])
	clear(files["server.key"])
	if err != nil {
		return Endpoint{}, tls.Certificate{}, err
	}
	return Endpoint{Port: port, CAPEM: files["ca.crt"]}, cert, nil
}

// create writes everything into a folder beside the final one and renames it.
func create(d home.Dirs) (err error) {
	port, err := choosePort()
	if err != nil {
		return err
	}
	files, err := identity()
	if err != nil {
		return err
	}
	defer clear(files["server.key"])
	files["port"] = []byte(strconv.Itoa(port) + "\n")
	tmp, err := os.MkdirTemp(d.State, home.TempName("bridge"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	for name, b := range files {
		if err := home.WriteFile(filepath.Join(tmp, name), b); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir(d))
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

// identity makes the authority, its one certificate, and forgets its key.
func identity() (map[string][]byte, error) {
	ca, err := NewAuthority("kubehsm bridge", identityLife)
	if err != nil {
		return nil, err
	}
	der, key, err := ca.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:   ca.Certificate.NotBefore,
		NotAfter:    ca.Certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"ca.crt":     CertificatePEM(ca.Certificate.Raw),
		"server.crt": CertificatePEM(der),
		"server.key": key,
	}, nil
}

func dir(d home.Dirs) string { return filepath.Join(d.State, "bridge") }
