// Package entry holds a kubeconfig entry of ours, as a Kubernetes client shows it
// to its plugin (KEP-541), against the enrollment that it was written for. Nothing
// in an entry is trusted; it can only be found wrong.
package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
)

// ErrUnnamed says that nothing names an enrollment.
var ErrUnnamed = errors.New("neither the arguments nor the cluster name an enrollment")

type extension struct {
	Enrollment string `json:"enrollment"`
	Server     string `json:"server"`
}

func extensionOf(r execcredential.Request) (extension, error) {
	var e extension
	if len(r.Config) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(r.Config, &e); err != nil {
		return e, hint.With(errors.New("the cluster's exec extension in the kubeconfig is not kubehsm's"), rewriteHint)
	}
	return e, nil
}

const rewriteHint = "write the entry anew with `kubehsm kubeconfig set`"

// Name is the enrollment that the arguments name, or else the cluster's
// extension. Where both do they must agree: somebody has mixed the user of one
// cluster with another cluster otherwise. Errors: [ErrUnnamed], [enrollment.ErrInvalid].
func Name(name string, r execcredential.Request) (string, error) {
	e, err := extensionOf(r)
	switch {
	case err != nil:
		return "", err
	case name == "" && e.Enrollment == "":
		return "", hint.With(ErrUnnamed, rewriteHint)
	case name == "":
		return e.Enrollment, enrollment.ValidName(e.Enrollment)
	case e.Enrollment != "" && e.Enrollment != name:
		return "", hint.With(
			fmt.Errorf("the kubeconfig's user is for the enrollment %q, its cluster for %q", name, e.Enrollment),
			rewriteHint)
	}
	return name, enrollment.ValidName(name)
}

// Check refuses an entry that shows another API server than the enrolled one, or
// does not lead to the bridge: the user would be asked for one cluster and work
// on another. Nor is one taken that would have the client speak to whoever has
// the bridge's port.
func Check(known enrollment.Enrollment, r execcredential.Request) error {
	name := known.Name
	if r.Cluster != nil && r.Cluster.Server != "" && !toBridge(r.Cluster.Server, name) {
		return hint.With(fmt.Errorf("the kubeconfig's cluster leads to %s, not to kubehsm's bridge", r.Cluster.Server),
			rewriteHint)
	}
	if r.Cluster != nil && r.Cluster.InsecureSkipTLSVerify {
		return hint.With(
			errors.New("the kubeconfig's cluster, or the command, does not verify kubehsm's bridge (insecure-skip-tls-verify)"),
			"leave that out; what the bridge verifies of the API server is said when it is enrolled")
	}
	e, err := extensionOf(r)
	if err != nil {
		return err
	}
	if e.Server != "" && e.Server != known.Cluster.Server {
		return hint.With(
			fmt.Errorf("the kubeconfig's cluster says %s, but %q was enrolled for %s", e.Server, name, known.Cluster.Server),
			"if it has moved, `kubehsm kubeconfig refresh "+name+" --server URL` follows it; if not, "+rewriteHint)
	}
	return nil
}

// toBridge reports whether server is the enrollment's address on this machine. Any port will do:
// another listener there has not the bridge's certificate.
func toBridge(server, name string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || strings.TrimSuffix(u.Path, "/") != loopback.PathPrefix+name {
		return false
	}
	switch u.Hostname() {
	case "127.0.0.1", "::1", "localhost":
		return true
	}
	return false
}
