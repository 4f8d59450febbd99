package body

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// pod describes a Pod's spec, or a part of one.
func (t *teller) pod(spec object) {
	if spec == nil {
		return
	}
	var host []string
	for _, f := range [][2]string{{"hostNetwork", "network"}, {"hostPID", "processes"}, {"hostIPC", "IPC"}} {
		if t.yes(spec, f[0]) {
			host = append(host, f[1])
		}
	}
	if len(host) > 0 {
		t.warn("shares the node's %s", strings.Join(host, ", "))
	}
	for _, v := range t.list(spec, "volumes") {
		if p := t.obj(v, "hostPath"); p != nil {
			t.warn("a path of the node: %s", consent.Quote(t.str(p, "path")))
		}
	}
	if t.yes(t.obj(spec, "securityContext", "windowsOptions"), "hostProcess") {
		t.warn("runs as processes of the node")
	}
	account, old := t.str(spec, "serviceAccountName"), t.str(spec, "serviceAccount")
	if s := cmp.Or(account, old); s != "" { // the old field counts where the new one is empty
		t.say("as service account %s", consent.Quote(s))
	}
	if s := t.str(spec, "nodeName"); s != "" {
		t.warn("on node %s", consent.Quote(s))
	}
	for _, f := range [][2]string{{"containers", "container"}, {"initContainers", "init container"},
		{"ephemeralContainers", "debug container"}} {
		for _, c := range t.list(spec, f[0]) {
			t.container(f[1], c)
		}
	}
}

func (t *teller) container(what string, c object) {
	security := t.obj(c, "securityContext")
	called := what
	if n := t.str(c, "name"); n != "" {
		called += " " + name(n)
	}
	var odd []string
	if t.yes(security, "privileged") {
		odd = append(odd, "PRIVILEGED")
	}
	if t.yes(t.obj(security, "windowsOptions"), "hostProcess") {
		odd = append(odd, "A PROCESS OF THE NODE")
	}
	if add := t.words(t.obj(security, "capabilities"), "add"); len(add) > 0 {
		odd = append(odd, "capabilities "+names(add))
	}
	if s := t.str(security, "procMount"); s != "" && s != "Default" {
		odd = append(odd, "procMount "+name(s))
	}
	for _, p := range t.list(c, "ports") {
		if n := t.get(p, "hostPort"); n != nil && n != int64(0) {
			odd = append(odd, "port "+number(n)+" of the node")
		}
	}
	if len(odd) > maxList {
		odd = append(odd[:maxList], fmt.Sprintf("and %d more things", len(odd)-maxList))
	}
	if len(odd) > 0 {
		t.warn("%s: %s", called, strings.Join(odd, ", "))
	}
	if image := t.str(c, "image"); image != "" {
		t.say("%s: image %s", called, consent.Name(image))
	}
	if run := append(t.words(c, "command"), t.words(c, "args")...); len(run) > 0 {
		t.say("%s: runs %s", called, consent.Quote(strings.Join(run, " ")))
	}
	for _, hook := range [][]string{{"lifecycle", "postStart"}, {"lifecycle", "preStop"}, {"startupProbe"},
		{"readinessProbe"},
		{"livenessProbe"}} {
		if run := t.words(t.obj(c, append(hook, "exec")...), "command"); len(run) > 0 {
			t.say("%s: runs %s (%s)", called, consent.Quote(strings.Join(run, " ")), hook[len(hook)-1])
		}
	}
}
