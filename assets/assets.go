// Package assets holds the files that kubehsm carries for other programs: the
// service managers' descriptions of its agent, and the roles and policies that
// a cluster needs for it.
package assets

import (
	_ "embed" // the files
	"fmt"
	"html"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

//go:embed systemd/kubehsm-agent.service
var systemdUnit string

//go:embed systemd/kubehsm-agent.socket
var systemdSocket string

//go:embed launchd/io.github.kubehsm.agent.plist
var launchdPlist string

// The names under which the service managers know the agent.
const (
	SystemdName       = "kubehsm-agent.service"
	SystemdSocketName = "kubehsm-agent.socket"
	LaunchdName       = "io.github.kubehsm.agent"
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
	if strings.ContainsAny(s.Executable, `"'\`) { // in words of its own: "special characters"
		return nil, fmt.Errorf("%q: systemd starts no program with a quotation mark or a backslash in its path", s.Executable)
	}
	return fill(systemdUnit, s, systemdProgram, func(home string) string {
		return "Environment=" + systemdAssignment("KUBEHSM_HOME", home) + "\n"
	})
}

// SystemdSocket returns the unit that has systemd hold the bridge's address for the
// service (systemd.socket(5)).
func SystemdSocket(address string) []byte {
	return []byte(strings.ReplaceAll(systemdSocket, "@address@", address))
}

// Launchd returns the property list for launchd (launchd.plist(5)).
func Launchd(s Service) ([]byte, error) {
	return fill(launchdPlist, s, html.EscapeString, func(home string) string {
		return "  <key>EnvironmentVariables</key>\n  <dict>\n    <key>KUBEHSM_HOME</key>\n    <string>" +
			html.EscapeString(home) + "</string>\n  </dict>\n"
	})
}

// fill puts a service's paths into file: word writes the program, setting the
// lines for a home. Package text/template is not used: a program with it must
// keep every method of every type, which makes it a third larger.
func fill(file string, s Service, word, setting func(string) string) ([]byte, error) {
	home := ""
	if s.Home != "" {
		home = setting(s.Home)
	}
	for _, path := range []string{s.Executable, s.Home} {
		if path == "" && path != s.Executable {
			continue
		}
		if !filepath.IsAbs(path) || !utf8.ValidString(path) || strings.ContainsFunc(path, unwritable) {
			return nil, fmt.Errorf("%q is not an absolute path that a service file can hold", path)
		}
	}
	return []byte(strings.NewReplacer("@executable@", word(s.Executable), "@home@\n", home).Replace(file)), nil
}

// unwritable are the characters that end a line, and those that XML has not (XML
// 1.0, section 2.2).
func unwritable(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff }

// systemdProgram quotes the first word of a command line, where % begins a
// specifier, and $ is itself (systemd.service(5), "Command lines").
func systemdProgram(s string) string { return `"` + strings.ReplaceAll(s, "%", "%%") + `"` }

// systemdAssignment quotes one assignment of Environment= (systemd.syntax(7)), where
// $ is itself as well.
func systemdAssignment(name, value string) string {
	return `"` + name + "=" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(value) + `"`
}
