package kubeconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
)

// ExecExtension is the cluster extension that client-go hands to exec plugins
// as the cluster's config.
const ExecExtension = "client.authentication.k8s.io/exec"

const (
	externalSigner = "externalSigner"
	// in the cluster's extension and the auth provider's config: the mark that an entry is ours
	enrollmentKey = "enrollment"
)

// Entry is a context with its cluster and user, all three of one Name.
//
// The entry is recognized as ours later by Extension["enrollment"] in the
// cluster, by Exec.Args that begin with credential, --enrollment, NAME (or by
// AuthProvider.Config["enrollment"]) in the user.
type Entry struct {
	Name string // not empty; printable

	// The cluster.
	cluster.Cluster
	Extension map[string]any // JSON values; content of [ExecExtension], optional

	// The user: one of the two.
	Exec         *Exec
	AuthProvider *AuthProvider

	// Namespace of a new context; one that is there keeps what it says.
	Namespace string
	// SetCurrent makes the context the current one.
	SetCurrent bool
}

// Exec is an exec plugin user (client-go's ExecConfig).
type Exec struct {
	APIVersion         string // client.authentication.k8s.io/v1 or /v1beta1
	Command            string // absolute, or a bare name looked up in PATH
	Args               []string
	Env                []EnvVar
	InteractiveMode    string // Never, IfAvailable or Always; required with v1
	ProvideClusterInfo bool
	InstallHint        string // shown by kubectl if the command is missing
}

// EnvVar is one environment variable for the plugin.
type EnvVar struct{ Name, Value string }

// AuthProvider is a user of an auth provider built into the client.
type AuthProvider struct {
	Name   string
	Config map[string]string
}

// check refuses what client-go would refuse, or what would not last.
func (e Entry) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	if e.Name == "" || strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return bad("the name is empty or not printable")
	}
	u, err := url.Parse(e.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return bad("the server must be an https URL without credentials")
	}
	if e.InsecureSkipTLSVerify && len(e.CAData) > 0 {
		return bad("a CA and insecure-skip-tls-verify exclude each other")
	}
	if (e.Exec == nil) == (e.AuthProvider == nil) {
		return bad("the user must have either an exec plugin or an auth provider")
	}
	if e.AuthProvider != nil && e.AuthProvider.Name == "" {
		return bad("the auth provider has no name")
	}
	x := e.Exec
	if x == nil {
		return nil
	}
	if x.Command == "" || (!filepath.IsAbs(x.Command) && filepath.Base(x.Command) != x.Command) {
		return bad("the command %q must be absolute or a bare name", x.Command)
	}
	switch x.APIVersion {
	case "client.authentication.k8s.io/v1":
		if x.InteractiveMode == "" {
			return bad("interactiveMode is required with %s", x.APIVersion)
		}
	case "client.authentication.k8s.io/v1beta1":
	default:
		return bad("the exec apiVersion %q is not known", x.APIVersion)
	}
	switch x.InteractiveMode {
	case "", "Never", "IfAvailable", "Always":
	default:
		return bad("the interactiveMode %q is not known", x.InteractiveMode)
	}
	for _, v := range x.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00") {
			return bad("the environment variable %q is not usable", v.Name)
		}
	}
	return nil
}

// object is a JSON object as encoding/json decodes it (numbers as
// json.Number).
type object = map[string]any

// bodies builds the three values wanted. old holds what is there now and ours,
// or nil: a context keeps its namespace and unknown fields, a cluster the
// extensions of others, a user whom it impersonates.
func (e Entry) bodies(old map[string]object) (map[string]object, error) {
	cluster := object{"server": e.Server}
	setIf(cluster, "tls-server-name", e.TLSServerName, e.TLSServerName != "")
	setIf(cluster, "insecure-skip-tls-verify", true, e.InsecureSkipTLSVerify)
	setIf(cluster, "proxy-url", e.ProxyURL, e.ProxyURL != "")
	setIf(cluster, "disable-compression", true, e.DisableCompression)
	setIf(cluster, "certificate-authority-data", e.CAData, len(e.CAData) > 0)
	var extensions []any
	if list, ok := old[clusters]["extensions"].([]any); ok {
		for _, x := range list {
			if m, ok := x.(object); !ok || m["name"] != ExecExtension {
				extensions = append(extensions, x)
			}
		}
	}
	if e.Extension != nil {
		extensions = append(extensions, object{"name": ExecExtension, "extension": e.Extension})
	}
	setIf(cluster, "extensions", extensions, len(extensions) > 0)

	context := object{}
	maps.Copy(context, old[contexts])
	context["cluster"], context["user"] = e.Name, e.Name
	setIf(context, "namespace", e.Namespace, e.Namespace != "" && old[contexts] == nil)

	user := e.user()
	for _, name := range []string{"as", "as-uid", "as-groups", "as-user-extra", "extensions"} {
		kept, ok := old[users][name]
		setIf(user, name, kept, ok)
	}

	out := map[string]object{}
	for section, body := range map[string]object{clusters: cluster, contexts: context, users: user} {
		plain, err := normalise(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		out[section] = plain
	}
	return out, nil
}

func (e Entry) user() object {
	if p := e.AuthProvider; p != nil {
		return object{"auth-provider": object{"name": p.Name, "config": p.Config}}
	}
	x := object{"apiVersion": e.Exec.APIVersion, "command": e.Exec.Command,
		"provideClusterInfo": e.Exec.ProvideClusterInfo}
	setIf(x, "args", e.Exec.Args, len(e.Exec.Args) > 0)
	var env []object
	for _, v := range e.Exec.Env {
		env = append(env, object{"name": v.Name, "value": v.Value})
	}
	setIf(x, "env", env, len(env) > 0)
	setIf(x, "interactiveMode", e.Exec.InteractiveMode, e.Exec.InteractiveMode != "")
	setIf(x, "installHint", e.Exec.InstallHint, e.Exec.InstallHint != "")
	return object{"exec": x}
}

func setIf(o object, key string, value any, ok bool) {
	if ok {
		o[key] = value
	}
}

// normalise passes v through JSON, so that it compares equal to what is read
// back from a file.
func normalise(v any) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out object
	return out, decodeJSON(data, &out)
}

// isOurs reports whether kubehsm made the body of a section. A context is ours
// if it pairs the cluster and the user of its own name; whether those are ours
// is asked of them.
func isOurs(section, name string, body object) bool {
	switch section {
	case clusters:
		list, _ := body["extensions"].([]any)
		for _, x := range list {
			if m, ok := x.(object); ok && m["name"] == ExecExtension {
				ext, _ := m["extension"].(object)
				id, _ := ext[enrollmentKey].(string)
				return id != ""
			}
		}
	case users:
		if exec, ok := body["exec"].(object); ok {
			list, _ := exec["args"].([]any)
			args := make([]string, len(list))
			for i, a := range list {
				args[i], _ = a.(string)
			}
			return enrollmentInArgs(args) != ""
		}
		if p, ok := body["auth-provider"].(object); ok && p["name"] == externalSigner {
			config, _ := p["config"].(object)
			id, _ := config[enrollmentKey].(string)
			return id != ""
		}
	case contexts:
		return body["cluster"] == name && body["user"] == name
	}
	return false
}

// enrollmentInArgs returns NAME of `credential --enrollment NAME`, or "".
func enrollmentInArgs(args []string) string {
	if len(args) >= 3 && args[0] == "credential" && args[1] == "--enrollment" {
		return args[2]
	}
	return ""
}

func enrollmentInJSON(raw []byte) string {
	var ext struct {
		Enrollment string `json:"enrollment"`
	}
	if json.Unmarshal(raw, &ext) != nil {
		return "" // an extension of another shape is somebody else's
	}
	return ext.Enrollment
}
