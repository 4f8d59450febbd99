// Package assets holds the files that kubehsm carries for other programs: the
// service managers' descriptions of its agent, and the roles and policies that
// a cluster needs for it.
package assets

import (
	"bytes"
	_ "embed" // the files
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed systemd/kubehsm-agent.service
var systemdUnit string

//go:embed launchd/io.github.kubehsm.agent.plist
var launchdPlist string

// The names under which the service managers know the agent.
const (
	SystemdName = "kubehsm-agent.service"
	LaunchdName = "io.github.kubehsm.agent"
)

// Service says what to run.
type Service struct {
	// Executable is the absolute path of kubehsm.
	Executable string
	// Home is KUBEHSM_HOME, "" if it is not set.
	Home string
}

// Systemd returns the user unit for systemd (systemd.service(5)).
func Systemd(s Service) ([]byte, error) {
	return render("systemd", systemdUnit, s, template.FuncMap{"word": systemdWord, "assignment": systemdAssignment})
}

// Launchd returns the property list for launchd (launchd.plist(5)).
func Launchd(s Service) ([]byte, error) {
	return render("launchd", launchdPlist, s, template.FuncMap{"text": xmlText})
}

func render(name, file string, s Service, f template.FuncMap) ([]byte, error) {
	for _, path := range []string{s.Executable, s.Home} {
		if path == "" && path != s.Executable {
			continue
		}
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%q is not an absolute path that a service file can hold", path)
		}
	}
	t, err := template.New(name).Funcs(f).Option("missingkey=error").Parse(file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// systemdWord quotes one word of a command line (systemd.syntax(7),
// systemd.service(5) "Command lines"): % begins a specifier, $ a variable.
func systemdWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s) + `"`
}

// systemdAssignment quotes one assignment of Environment=, where $ is itself.
func systemdAssignment(name, value string) string {
	return `"` + name + "=" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(value) + `"`
}

func xmlText(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}
