//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/controlplane"
)

// What every lab is like.
const (
	// Context is the kubeconfig context that exists before any enrollment; its
	// user is [Filer] in [FilersGroup].
	Context = "prod"
	Filer   = "jane@sso"
	// Token and PIN are the token's label and PIN.
	Token = "lab"
	PIN   = "7391640258" // found nowhere by chance
	SOPIN = "8046273915"
)

// Options say what lab to make.
type Options struct {
	// Binary is kubehsm, from [Build]. The lab has kubehsm-credential too if it is in the same folder.
	Binary  string
	Cluster *controlplane.Cluster
	// Groups are the groups of the user whose credential the kubeconfig holds;
	// nil is [FilersGroup].
	Groups []string
	// Tokens are the tokens in software; nil is one, [Token], and an empty list is none.
	Tokens []hsmtest.SoftToken
	// Path are folders that further programs are found in, before the system's.
	Path []string
}

// Lab is a user of kubehsm. See [New].
type Lab struct {
	// Dir holds everything. Home is KUBEHSM_HOME, Binary the program, Plugin the program that
	// kubeconfig entries name, Kubeconfig the user's kubeconfig.
	Dir, Home, Binary, Plugin, Kubeconfig string
	Cluster                               *controlplane.Cluster
	Soft                                  *hsmtest.SoftHSM

	path []string
}

// New makes a lab in dir, which must be empty and stay short: sockets are in it.
func New(dir string, o Options) (*Lab, error) {
	l := &Lab{
		Dir: dir, Home: filepath.Join(dir, "k"), Binary: filepath.Join(dir, "bin", "kubehsm"),
		Kubeconfig: filepath.Join(dir, "kubeconfig"), Cluster: o.Cluster, path: o.Path,
	}
	l.Plugin = l.Binary
	for _, d := range []string{"k", "bin", "home", "tmp", "soft"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("make a lab: %w", err)
		}
	}
	if err := errors.Join(l.install(o.Binary), l.makeTokens(o.Tokens), l.writeKubeconfig(o.Groups)); err != nil {
		return nil, fmt.Errorf("make a lab: %w", err)
	}
	return l, nil
}

// install gives the lab a program of its own, so that its processes are told
// from those of other labs by their command lines.
func (l *Lab) install(binary string) error {
	bin := filepath.Dir(l.Binary)
	links := []error{LinkOrCopy(binary, l.Binary), LinkOrCopy(binary, filepath.Join(bin, "kubectl-hsm"))}
	if plugin := filepath.Join(filepath.Dir(binary), execcredential.Program); exists(plugin) {
		l.Plugin = filepath.Join(bin, execcredential.Program)
		links = append(links, LinkOrCopy(plugin, l.Plugin))
	}
	if l.Cluster != nil {
		links = append(links, os.Symlink(l.Cluster.Kubectl(), filepath.Join(bin, "kubectl")))
	}
	return errors.Join(links...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// LinkOrCopy gives the program at from another name.
func LinkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700)
}

// makeTokens makes the tokens and names their library in the configuration,
// with what it needs in the environment.
func (l *Lab) makeTokens(tokens []hsmtest.SoftToken) error {
	if tokens == nil {
		tokens = []hsmtest.SoftToken{{Label: Token, PIN: PIN, SOPIN: SOPIN}}
	}
	var err error
	dir := filepath.Join(l.Dir, "soft")
	if len(tokens) == 0 {
		l.Soft, err = hsmtest.EmptySoftHSM(dir)
	} else {
		l.Soft, err = hsmtest.NewSoftHSM(dir, tokens...)
	}
	if err != nil {
		return err
	}
	config := fmt.Sprintf("modules:\n- path: %s\n  env: {SOFTHSM2_CONF: %s}\n", l.Soft.Module, l.Soft.Conf)
	return os.WriteFile(filepath.Join(l.Home, "config.yaml"), []byte(config), 0o600)
}

// kubeconfigHead must survive all that is done to the kubeconfig.
const kubeconfigHead = "# the clusters of Jane; keep this line\n"

func (l *Lab) writeKubeconfig(groups []string) error {
	if l.Cluster == nil {
		return nil
	}
	if groups == nil {
		groups = []string{FilersGroup}
	}
	if err := l.Cluster.WriteKubeconfig(l.Kubeconfig, Context, Filer, groups...); err != nil {
		return err
	}
	b, err := os.ReadFile(l.Kubeconfig)
	if err != nil {
		return err
	}
	return os.WriteFile(l.Kubeconfig, append([]byte(kubeconfigHead), b...), 0o600)
}

// Env is the whole environment of the lab's programs. That of this process has
// no part in it, but for PATH.
func (l *Lab) Env() []string {
	path := filepath.Dir(l.Binary)
	for _, p := range append(l.path, os.Getenv("PATH")) {
		path += string(os.PathListSeparator) + p
	}
	return []string{
		"PATH=" + path, "HOME=" + filepath.Join(l.Dir, "home"), "TMPDIR=" + filepath.Join(l.Dir, "tmp"),
		"KUBEHSM_HOME=" + l.Home, "KUBECONFIG=" + l.Kubeconfig,
		"KUBECACHEDIR=" + filepath.Join(l.Dir, "kubectl-cache"), "KUBERC=off",
		"LANG=C.UTF-8", "TERM=xterm-256color", "USER=jane", "SHELL=/bin/sh",
	}
}
