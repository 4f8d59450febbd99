package tui

import (
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

// withOurs has a context of kubehsm's among the others.
func withOurs(f *fakeBackend) {
	f.contexts = append(f.contexts, contexts.View{Name: "prod-hsm", Cluster: "prod-hsm", Server: "https://127.0.0.1:40123/c/prod-hsm", User: "prod-hsm",
		UserKind: "kubehsm", Ours: true, APIServer: "https://prod.example.com:6443", Enrollment: "prod-hsm", File: "/home/jane/.kube/config"})
	f.contexts[0].UserKind, f.contexts[1].UserKind = "key-file", "exec"
}

func atContexts(r *rig) {
	atTokens(r)
	r.goTo("Contexts")
	r.Sees("● trial-admin", "prod-hsm")
}
