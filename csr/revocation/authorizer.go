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

// maxWebhookIDs bounds how many certificates one webhook names: an id takes some 90 characters of
// an expression, which may have 100,000 (see [MaxLiteral]). The API server does not start with more.
const maxWebhookIDs = 1000

// Authorizer is an AuthorizationConfiguration for the API servers of a cluster that one runs
// oneself. It refuses everything to the certificates on the list, reading too: authorizers
// that nobody answers for, asked about these alone, with failurePolicy Deny. The API server
// reads the file again when it changes. Members of system:masters get by.
func (l List) Authorizer() string {
	var ids []string
	for e := range l.All() {
		ids = append(ids, quote(CertificatePrefix+e.Certificate))
	}
	slices.Sort(ids)
	parts := slices.Collect(slices.Chunk(slices.Compact(ids), maxWebhookIDs))
	if len(parts) == 0 {
		parts = [][]string{nil}
	}
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n")
	for i, part := range parts {
		list := "[]"
		if len(part) > 0 {
			list = "[\n          " + strings.Join(part, ",\n          ") + "]"
		}
		fmt.Fprintf(&b, `- type: Webhook
  name: %s%d
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
        has(request.extra) && %[5]q in request.extra &&
        request.extra[%[5]q].exists(c, c in %[6]s)
`, PolicyPrefix, i+1, AuthorizerKubeconfigFile, quote(l.Settings.SparedGroup()), CredentialID, list)
	}
	b.WriteString("- type: Node\n  name: node\n- type: RBAC\n  name: rbac\n")
	return b.String()
}
