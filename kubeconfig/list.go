package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// UserKind says how a kubeconfig user authenticates.
type UserKind string

// The kinds of user, in client-go's order of preference.
const (
	UserOurs           UserKind = "kubehsm"         // our exec plugin
	UserExternalSigner UserKind = "external-signer" // auth-provider externalSigner
	UserExec           UserKind = "exec"            // another exec plugin
	UserAuthProvider   UserKind = "auth-provider"
	UserKeyFile        UserKind = "key-file" // client-key names a file
	UserKeyData        UserKind = "key-data" // client-key-data holds the key itself
	UserToken          UserKind = "token"    // in the kubeconfig
	UserTokenFile      UserKind = "token-file"
	UserBasic          UserKind = "basic"
	UserAnonymous      UserKind = "anonymous" // no credential
	UserMissing        UserKind = "missing"   // the context names a user that does not exist
)

// Context is one kubeconfig context with what it refers to. All text in it comes from the files and is untrusted.
type Context struct {
	Name      string
	Namespace string // empty means default
	Current   bool
	File      string // file that defines the context
	Cluster   Cluster
	User      User
}

// Cluster is the cluster that a context names.
type Cluster struct {
	Name    string
	Missing bool   // the context names a cluster that does not exist
	File    string // the file that defines the entry
	cluster.Cluster
	CAFile string // absolute; counts only if CAData is empty
	// Extension is the JSON of the client.authentication.k8s.io/exec extension, or nil.
	Extension []byte
}

// Ours tells whether the entry is one that kubehsm wrote: it leads to the bridge.
func (c Cluster) Ours() bool { return c.Extension != nil && enrollmentInJSON(c.Extension) != "" }

// CA returns the cluster's CA certificates as PEM, reading CAFile if it must; nil means the system's roots.
func (c Cluster) CA() ([]byte, error) {
	if len(c.CAData) > 0 || c.CAFile == "" {
		return c.CAData, nil
	}
	pem, err := ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA of cluster %q: %w", c.Name, err)
	}
	return pem, nil
}

// User is the user that a context names; it holds no secret.
type User struct {
	Name       string
	File       string // the file that defines the entry
	Kind       UserKind
	Command    string // exec: the command
	Enrollment string // ours: the enrollment's name
	KeyFile    string // key-file: absolute path
}

// Ours tells whether kubehsm signs in, as a plugin or as an external signer.
func (u User) Ours() bool {
	return u.Kind == UserOurs || u.Kind == UserExternalSigner && u.Enrollment != ""
}

// List returns all contexts by name. Files that cannot be parsed are reported
// together in the error, beside the contexts of the others.
func (r Rules) List(ctx context.Context) ([]Context, error) {
	return ListAs(ctx, r, func(c Context) Context { return c })
}

// ListAs is [Rules.List] for who needs little of each context, which as returns.
func ListAs[T any](ctx context.Context, r Rules, as func(Context) T) ([]T, error) {
	config, err := r.load(ctx)
	if config == nil {
		return nil, err
	}
	list := make([]T, 0, len(config.Contexts))
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		list = append(list, as(describe(config, name)))
	}
	return list, err
}

// Get returns one context; an empty name means the current one. The error wraps [ErrNoContext] if there is none.
func (r Rules) Get(ctx context.Context, name string) (Context, error) {
	config, err := r.load(ctx)
	if err != nil {
		return Context{}, err
	}
	if name, err = r.pick(config, name); err != nil {
		return Context{}, err
	}
	return describe(config, name), nil
}

// RESTConfig returns the client configuration of a context as client-go makes
// it; an empty name means the current one. It never falls back to another
// context, to localhost or to a pod's service account. A context whose user is
// kubehsm's runs kubehsm itself when it is used.
func (r Rules) RESTConfig(ctx context.Context, name string) (*rest.Config, error) {
	config, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	if name, err = r.pick(config, name); err != nil {
		return nil, err
	}
	if err := checkNamed(config, name); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	rc, err := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	return rc, nil
}

// pick finds the context that name means, and gives it the rules' cluster.
func (r Rules) pick(config *api.Config, name string) (string, error) {
	if name == "" {
		if name = config.CurrentContext; name == "" {
			return "", hint.Withf(fmt.Errorf("%w: none is current", ErrNoContext),
				"name one with --context, or choose one: kubectl config use-context NAME")
		}
	}
	if config.Contexts[name] == nil {
		return "", hint.Withf(fmt.Errorf("%w: %q", ErrNoContext, name), "kubehsm kubeconfig list shows those there are")
	}
	if r.Cluster != "" {
		if config.Clusters[r.Cluster] == nil {
			return "", hint.Withf(fmt.Errorf("%w: %q", ErrNoCluster, r.Cluster),
				"kubectl config get-clusters shows those there are")
		}
		other := config.Contexts[name].DeepCopy()
		other.Cluster = r.Cluster
		config.Contexts[name] = other
	}
	return name, nil
}

// load merges the files as clientcmd does: the first to define an entry wins.
func (r Rules) load(ctx context.Context) (*api.Config, error) {
	if r.Explicit != "" {
		if _, err := os.Stat(r.Explicit); err != nil {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
	}
	var merged *api.Config
	var broken []error
	for _, path := range r.Paths() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		config, err := loadFile(path)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		if merged == nil {
			merged = config
			continue
		}
		addMissing(merged.Clusters, config.Clusters)
		addMissing(merged.AuthInfos, config.AuthInfos)
		addMissing(merged.Contexts, config.Contexts)
		if merged.CurrentContext == "" {
			merged.CurrentContext = config.CurrentContext
		}
	}
	if merged == nil {
		merged = api.NewConfig()
	}
	return merged, errors.Join(broken...)
}

func addMissing[V any](to, from map[string]V) {
	for name, v := range from {
		if _, ok := to[name]; !ok {
			to[name] = v
		}
	}
}

func loadFile(path string) (*api.Config, error) {
	s, err := readSource(path)
	if err != nil || !s.exists {
		return api.NewConfig(), err
	}
	config, err := clientcmd.Load(s.data)
	if err != nil {
		return nil, parseError(path, err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = path
	}
	for _, c := range config.Contexts {
		c.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, parseError(path, err)
	}
	return config, nil
}

func describe(config *api.Config, name string) Context {
	c := config.Contexts[name]
	out := Context{Name: name, Namespace: c.Namespace, Current: name == config.CurrentContext, File: c.LocationOfOrigin}
	out.Cluster = describeCluster(c.Cluster, config.Clusters[c.Cluster])
	out.User = describeUser(c.AuthInfo, config.AuthInfos[c.AuthInfo])
	return out
}

func describeCluster(name string, c *api.Cluster) Cluster {
	if c == nil {
		return Cluster{Name: name, Missing: true}
	}
	out := Cluster{Name: name, File: c.LocationOfOrigin, CAFile: c.CertificateAuthority, Cluster: cluster.Cluster{
		Server: c.Server, TLSServerName: c.TLSServerName, CAData: c.CertificateAuthorityData,
		InsecureSkipTLSVerify: c.InsecureSkipTLSVerify, ProxyURL: c.ProxyURL, DisableCompression: c.DisableCompression}}
	if u, ok := c.Extensions[ExecExtension].(*runtime.Unknown); ok {
		out.Extension = u.Raw
	}
	return out
}

func describeUser(name string, u *api.AuthInfo) User {
	if u == nil {
		return User{Name: name, Kind: UserMissing}
	}
	out := User{Name: name, File: u.LocationOfOrigin}
	switch {
	case u.Exec != nil:
		out.Kind, out.Command = UserExec, u.Exec.Command
		if e := enrollmentInArgs(u.Exec.Args); e != "" {
			out.Kind, out.Enrollment = UserOurs, e
		}
	case u.AuthProvider != nil && u.AuthProvider.Name == externalSigner:
		out.Kind, out.Enrollment = UserExternalSigner, u.AuthProvider.Config[enrollmentKey]
	case u.AuthProvider != nil:
		out.Kind = UserAuthProvider
	case len(u.ClientKeyData) > 0:
		out.Kind = UserKeyData
	case u.ClientKey != "":
		out.Kind, out.KeyFile = UserKeyFile, filepath.Clean(u.ClientKey)
	case u.TokenFile != "":
		out.Kind = UserTokenFile
	case u.Token != "":
		out.Kind = UserToken
	case u.Username != "":
		out.Kind = UserBasic
	default:
		out.Kind = UserAnonymous
	}
	return out
}
