package revocation

import (
	"fmt"
	"slices"
	"strings"
)

// AuthorizerKubeconfigFile is where the API server's host must have [AuthorizerKubeconfig].
const AuthorizerKubeconfigFile = "/etc/kubernetes/kubehsm-revoked.kubeconfig"

// AuthorizerKubeconfig leads the authorizer of [List.Authorizer] to port 1 of its own host,
// where nobody listens.
const AuthorizerKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: nobody
  cluster: {server: "https://127.0.0.1:1"}
users:
- name: nobody
contexts:
- name: nobody
  context: {cluster: nobody, user: nobody}
current-context: nobody
`

// Authorizer is an AuthorizationConfiguration for the API servers of a cluster that one runs
// oneself. It refuses everything to the certificates on the list, reading too: an authorizer
// that nobody answers for, asked about these alone, with failurePolicy Deny. The API server
// reads the file again when it changes. Members of system:masters get by.
func (l List) Authorizer() string {
	var ids []string
	for e := range l.All() {
		ids = append(ids, quote(CertificatePrefix+e.Certificate))
	}
	slices.Sort(ids)
	list := "[]"
	if len(ids) > 0 {
		list = "[\n          " + strings.Join(slices.Compact(ids), ",\n          ") + "]"
	}
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: kubehsm-revoked
  webhook:
    timeout: 1s
    authorizedTTL: 1s
    unauthorizedTTL: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: %s
    matchConditions:
    - expression: >-
        !(has(request.groups) && request.groups.exists(g, g in ["system:nodes", %s]))
    - expression: >-
        has(request.extra) && %[3]q in request.extra &&
        request.extra[%[3]q].exists(c, c in %[4]s)
- type: Node
  name: node
- type: RBAC
  name: rbac
`, AuthorizerKubeconfigFile, quote(l.Settings.SparedGroup()), CredentialID, list)
}
