package wire

import (
	"errors"
	"fmt"
	"strings"
)

// EnvVar is the environment variable that clients put the request into: what
// the prototype reads, as the KEP names none.
const EnvVar = "EXTERNAL_SIGNER_PLUGIN_CONFIG"

// EnvVars are all names that clients have used, [EnvVar] first.
func EnvVars() []string { return []string{EnvVar, "EXTERNAL_SIGNER_PKCS11_PLUGIN_CONFIG"} }

// ErrNoRequest says that there is none, neither in the environment nor as an
// argument.
var ErrNoRequest = errors.New("no external signer request")

// Requested reports whether the program was started as an external signer: with
// the request in its environment and no arguments (args is without the
// program's name), or with the request as its one argument. getenv is
// [os.Getenv] outside tests.
func Requested(args []string, getenv func(string) string) bool {
	if len(args) == 1 {
		return strings.HasPrefix(strings.TrimSpace(args[0]), "{")
	}
	if len(args) > 1 {
		return false
	}
	for _, name := range EnvVars() {
		if getenv(name) != "" {
			return true
		}
	}
	return false
}

// Read finds and parses the request; see [Requested]. Errors wrap
// [ErrNoRequest] or [ErrRequest].
func Read(args []string, getenv func(string) string) (Request, error) {
	if !Requested(args, getenv) {
		return Request{}, ErrNoRequest
	}
	if len(args) == 1 {
		return Parse([]byte(args[0]))
	}
	found, from := "", ""
	for _, name := range EnvVars() {
		value := getenv(name)
		if value != "" && found != "" && value != found {
			return Request{}, fmt.Errorf("%w: %s and %s hold two different ones", ErrRequest, from, name)
		}
		if value != "" {
			found, from = value, name
		}
	}
	return Parse([]byte(found))
}
