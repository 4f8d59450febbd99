// Package kuberc reads kubectl's own preferences, the kuberc file, as far as they say which exec
// plugins kubectl may run.
package kuberc

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/homedir"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

// The policies of kubectl's preferences for exec plugins (KEP-3104); "" is
// PolicyAllowAll.
const (
	PolicyAllowAll  = "AllowAll"
	PolicyDenyAll   = "DenyAll"
	PolicyAllowlist = "Allowlist"
)

// PluginPolicy is what kubectl's preferences file says of exec plugins.
type PluginPolicy struct {
	// File is the kuberc file, existing or not; empty if kubectl reads none.
	File string
	// Policy is one of the policies, or what else stands in the file.
	Policy string
	// Allowed are the entries of the allow list: paths, or names without one.
	Allowed []string

	named bool // File is KUBERC's
}

// ReadPluginPolicy reads the file that kubectl would: the one that KUBERC names,
// else ~/.kube/kuberc. One that does not exist allows everything, as does
// KUBERC=off. The error wraps [ErrParse] if it cannot be understood.
func ReadPluginPolicy(getenv func(string) string) (PluginPolicy, error) {
	p := PluginPolicy{Policy: PolicyAllowAll, File: getenv("KUBERC")}
	if p.File == "off" || strings.EqualFold(getenv("KUBECTL_KUBERC"), "false") {
		p.File = ""
		return p, nil
	}
	if p.named = p.File != ""; !p.named {
		p.File = filepath.Join(homedir.HomeDir(), ".kube", "kuberc")
	}
	data, err := kubeconfig.ReadFile(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read kubectl's preferences: %w", err)
	}
	var pref struct {
		CredentialPluginPolicy    string `json:"credentialPluginPolicy"`
		CredentialPluginAllowlist []struct {
			Command string `json:"command"`
			Name    string `json:"name"` // until kubectl 1.35
		} `json:"credentialPluginAllowlist"`
	}
	if err := yaml.Unmarshal(data, &pref); err != nil {
		return p, fmt.Errorf("%s: %w: %w", p.File, kubeconfig.ErrParse, err)
	}
	if pref.CredentialPluginPolicy != "" {
		p.Policy = pref.CredentialPluginPolicy
	}
	for _, e := range pref.CredentialPluginAllowlist {
		for _, c := range []string{e.Command, e.Name} {
			if c != "" {
				p.Allowed = append(p.Allowed, c)
			}
		}
	}
	return p, nil
}

// Allows reports whether kubectl runs the exec plugin command under the policy:
// an entry without a path means that name in any folder.
func (p PluginPolicy) Allows(command string) bool {
	switch p.Policy {
	case PolicyAllowAll:
		return true
	case PolicyAllowlist:
	default:
		return false
	}
	resolved, err := exec.LookPath(command)
	if err != nil {
		resolved = command
	}
	return slices.ContainsFunc(p.Allowed, func(entry string) bool {
		if !strings.ContainsRune(entry, filepath.Separator) {
			return entry == filepath.Base(resolved)
		}
		return entry == resolved
	})
}

// Allowing is the kubectl command that makes the policy allow command beside
// what it allows already: kubectl replaces the whole list. It is empty if
// command is allowed.
func (p PluginPolicy) Allowing(command string) string {
	if p.Allows(command) {
		return ""
	}
	line := []string{"kubectl kuberc set --section credentialplugin --policy " + PolicyAllowlist}
	if p.named {
		line = append(line, "--kuberc", shell.Quote(p.File))
	}
	allowed := p.Allowed
	if p.Policy != PolicyAllowlist {
		allowed = nil // not in force: not to be put in force unasked
	}
	for _, a := range append(slices.Clone(allowed), command) {
		line = append(line, "--allowlist-entry command="+shell.Quote(a))
	}
	return strings.Join(line, " ")
}
