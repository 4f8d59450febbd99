package provider

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// Name is the auth provider's name in kubeconfigs.
const Name = wire.ProviderName

// Options are what signers are started with.
type Options struct {
	// Stdin is handed to signers if it is a terminal; nil is [os.Stdin].
	Stdin *os.File
	// Stderr receives what signers tell the user; nil is [os.Stderr].
	Stderr io.Writer
	// CoolDown is how long no signer is started after one has failed; 0 is 5 s.
	CoolDown time.Duration
}

func (o Options) withDefaults() Options {
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.CoolDown == 0 {
		o.CoolDown = 5 * time.Second
	}
	return o
}

// Register makes the auth provider known to client-go, for the whole process.
// A second registration is an error.
func Register(o Options) error { return rest.RegisterAuthProviderPlugin(Name, NewFactory(o)) }

// NewFactory returns what [Register] registers. The providers that it makes
// share one queue for signers, and each configuration has one provider.
func NewFactory(o Options) rest.Factory {
	f := &factory{options: o.withDefaults(), queue: make(chan struct{}, 1), providers: map[string]*provider{}}
	return f.provider
}

type factory struct {
	options Options
	queue   chan struct{} // holds a token while a signer runs

	mu        sync.Mutex
	providers map[string]*provider
}

// provider returns the one for a configuration: clients ask for each connection.
func (f *factory) provider(cluster string, config map[string]string,
	_ rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
	program, err := f.program(config)
	if err != nil {
		return nil, fmt.Errorf("auth provider %s: %w", Name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(cluster, config)
	p := f.providers[key]
	if p == nil {
		p = newProvider(&signer{program: program, queue: f.queue}, len(f.providers)+1)
		f.providers[key] = p
	}
	return p, nil
}

func keyOf(cluster string, config map[string]string) string {
	key := fmt.Sprintf("%q", cluster)
	for _, name := range slices.Sorted(maps.Keys(config)) {
		key += fmt.Sprintf(" %q=%q", name, config[name])
	}
	return key
}

func (f *factory) program(config map[string]string) (*program, error) {
	values := map[string]string{}
	for key, value := range config {
		name, _ := wire.Canonical(key)
		if other, twice := values[name]; twice && other != value {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		values[name] = value
	}
	path, err := findProgram(values[wire.KeyPathExec])
	if err != nil {
		return nil, err
	}
	return &program{path: path, config: maps.Clone(config), options: f.options}, nil
}

// findProgram refuses a relative path: a provider does not know its kubeconfig's folder, and the
// working directory must not decide which program runs.
func findProgram(program string) (string, error) {
	switch {
	case program == "":
		return "", fmt.Errorf("the configuration has no %s, the path of a program such as kubehsm", wire.KeyPathExec)
	case filepath.IsAbs(program):
		return program, nil
	case strings.ContainsAny(program, `/\`):
		return "", fmt.Errorf("%s %s is neither an absolute path nor a bare name", wire.KeyPathExec, quoted(program))
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s %s is not on PATH", wire.KeyPathExec, quoted(program))
	}
	return path, err
}

// quoted is a name from a kubeconfig, cut and safe for a terminal.
func quoted(name string) string { return fmt.Sprintf("%.400q", name) }
