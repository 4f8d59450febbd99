package body

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// TestNothingIsHidden: what an API server takes for the same is told of as the same, and what
// is cut off is said.
func TestNothingIsHidden(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 70) }
	for _, c := range []struct {
		name, method, path, media, body, want string
	}{
		{"the old field of the service account", "POST", "/api/v1/namespaces/web/pods", typeJSON,
			`{"spec":{"serviceAccount":"admin","serviceAccountName":""}}`, `as service account "admin"`},
		{"a command after the start", "POST", "/api/v1/namespaces/web/pods", typeJSON,
			`{"spec":{"containers":[{"name":"c","image":"nginx","lifecycle":{"postStart":{"exec":{"command":["sh","-c","evil"]}}}}]}}`,
			`container c: runs "sh -c evil" (postStart)`},
		{"a command as a probe", "POST", "/api/v1/namespaces/web/pods", typeJSON,
			`{"spec":{"containers":[{"name":"c","livenessProbe":{"exec":{"command":["evil"]}}}]}}`,
			`container c: runs "evil" (livenessProbe)`},
		{"a process of a Windows node", "POST", "/api/v1/namespaces/web/pods", typeJSON,
			`{"spec":{"securityContext":{"windowsOptions":{"hostProcess":true}}}}`, "runs as processes of the node"},
		{"a container that is one", "POST", "/api/v1/namespaces/web/pods", typeJSON,
			`{"spec":{"containers":[{"name":"c","securityContext":{"windowsOptions":{"hostProcess":true}}}]}}`,
			"container c: A PROCESS OF THE NODE"},
		{"an index from the end", "PATCH", "/apis/apps/v1/namespaces/web/deployments/x", typeJSONPatch,
			`[{"op":"add","path":"/spec/template/spec/containers/-1/securityContext","value":{"privileged":true}}]`,
			"container: PRIVILEGED"},
		{"an index with a sign", "PATCH", "/apis/apps/v1/namespaces/web/deployments/x", typeJSONPatch,
			`[{"op":"add","path":"/spec/template/spec/containers/+0/securityContext","value":{"privileged":true}}]`,
			"container: PRIVILEGED"},
		{"a star behind long names", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", typeJSON,
			fmt.Sprintf(`{"rules":[{"verbs":[%q,%q,%q,"*"],"resources":[%[1]q,%[2]q,%[3]q,"*"]}]}`, long("a"), long("b"), long("c")),
			"(* is everything)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := typed(c.media)
			got := Account(consent.Parse(c.method, c.path, h, true), h, []byte(c.body))
			if !slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, c.want) }) {
				t.Errorf("%q is not told:\n\t%s", c.want, strings.Join(got, "\n\t"))
			}
			for _, l := range got {
				if len(l) > MaxLine {
					t.Errorf("%d bytes: %s", len(l), l)
				}
			}
		})
	}
}
