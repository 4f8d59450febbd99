package question

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

func TestWhy(t *testing.T) {
	for p, want := range map[hsm.Purpose]string{
		{Cluster: "prod"}: "to sign in to prod",
		{Cluster: "prod", Action: "store the certificate"}:            "to store the certificate for prod",
		{Action: "sign in to prod", Cluster: "prod"}:                  "to sign in to prod",
		{Action: `allow “delete namespaces "prod"”`, Cluster: "prod"}: `to allow “delete namespaces "prod"” for prod`,
		{Command: "kubectl get pods"}:                                 ", for: kubectl get pods",
		{}:                                                            "",
	} {
		if got := Why(p); got != want {
			t.Errorf("Why(%+v) = %q, want %q", p, got, want)
		}
	}
}
