package execcredential

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

const (
	// EnvVar is the environment variable that carries the request.
	EnvVar = "KUBERNETES_EXEC_INFO"
	// V1 and V1beta1 are the versions spoken here.
	V1      = group + "/v1"
	V1beta1 = group + "/v1beta1"
	// ClusterExtension is the name of the kubeconfig cluster extension whose
	// content arrives as [Request.Config].
	ClusterExtension = group + "/exec"
	// MaxRequest is the largest request read, in bytes. Linux itself ends an
	// environment variable at 128 KiB.
	MaxRequest = 1 << 20

	group    = "client.authentication.k8s.io"
	kind     = "ExecCredential"
	v1alpha1 = group + "/v1alpha1"
)

var (
	// ErrNoRequest says that [EnvVar] is unset or empty: the command was not
	// called by a Kubernetes client.
	ErrNoRequest = errors.New(EnvVar + " is not set")
	// ErrVersion says that the request speaks a version not spoken here.
	ErrVersion = errors.New("unsupported exec credential version")
	// ErrRequest says that the request could not be understood.
	ErrRequest = errors.New("malformed exec credential request")
)

// Request is what the client asks for and tells.
type Request struct {
	// APIVersion is [V1] or [V1beta1]; the answer must carry the same one.
	APIVersion string
	// Interactive is true if standard input is a terminal handed to us.
	Interactive bool
	// Cluster is the kubeconfig cluster that the client is about to talk to, all of
	// it untrusted text. It is nil unless the kubeconfig user says
	// provideClusterInfo: true and the client is new enough to honour it.
	Cluster *cluster.Cluster
	// Config is the JSON of the cluster's [ClusterExtension], untrusted as well; nil
	// if absent or null.
	Config json.RawMessage
}

// Minimal is the value of [EnvVar] in version V1 or V1beta1 that says nothing
// else. Entries carry it for clients that set the variable from nothing but the
// entry's env; client-go sets its own value, which wins.
func Minimal(version string) string {
	return `{"apiVersion":"` + version + `","kind":"` + kind + `","spec":{"interactive":false}}`
}

// Assume is the request of a client that does not set [EnvVar]: it wants an
// answer in version, which is given in full or by its last part; "" means
// [V1beta1], as in the entries that kubehsm writes. Errors wrap [ErrVersion].
func Assume(version string) (Request, error) {
	switch version {
	case "":
		version = V1beta1
	case "v1", "v1beta1":
		version = group + "/" + version
	}
	return Request{APIVersion: version}, checkVersion(version, kind)
}

// Read parses the value of [EnvVar]. Unknown fields are ignored, as newer
// clients may send more; doubled ones are refused, as two readers could
// understand them differently. Field names are compared with their case, as
// client-go does.
//
// Errors wrap [ErrNoRequest], [ErrVersion] or [ErrRequest], and carry a hint
// where there is a next step. They quote none of the request but its version.
func Read(env string) (Request, error) {
	if strings.TrimSpace(env) == "" {
		return Request{}, hint.With(ErrNoRequest,
			"this command is called by kubectl; to use a key run kubectl with a context that kubehsm has set up")
	}
	if len(env) > MaxRequest {
		return Request{}, fmt.Errorf("%w: %d bytes, at most %d are read", ErrRequest, len(env), MaxRequest)
	}
	r, kind, err := decode([]byte(env))
	if err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := checkVersion(r.APIVersion, kind); err != nil {
		return Request{}, err
	}
	return r, nil
}

func checkVersion(version, k string) error {
	switch version {
	case V1, V1beta1:
	case v1alpha1:
		return hint.With(fmt.Errorf("%w: %s was removed from Kubernetes in 1.24", ErrVersion, v1alpha1),
			"set apiVersion: "+V1beta1+" in the kubeconfig user's exec section")
	case "":
		return fmt.Errorf("%w: it has no apiVersion", ErrRequest)
	default:
		return hint.With(fmt.Errorf("%w: %.80q", ErrVersion, version),
			"set apiVersion: "+V1beta1+" or "+V1+" in the kubeconfig user's exec section")
	}
	if k != kind {
		return fmt.Errorf("%w: kind is %.80q, not %s", ErrRequest, k, kind)
	}
	return nil
}
