//go:build linux

package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// question is in the words that ask for consent.
const question = "Allow it? [y/N]"

// TestConsent: with the policy writes reading is silent, and a command that
// changes something, or connects, asks once on its own terminal.
func TestConsent(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	key := u.enroll().Key
	namespace := unique("consent")
	u.admin("create", "namespace", namespace)
	if err := u.Cluster.RunPod(t.Context(), namespace, "web"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(u.Dir, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		manifest := strings.Replace(configMap, "NAME", fmt.Sprint("map-", i), 1)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.consents("writes")
	kubectl := "kubectl -n " + namespace + " "

	t.Run("reading is silent", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl + "get configmaps -o name; " + kubectl + "auth whoami -o name; " + kubectl +
			"create configmap x --dry-run=server -o name; echo code $?")
		s.WaitFor("configmap/x", "code 0")
		s.Exit()
		if strings.Contains(s.Output(), question) {
			t.Error(s.Output())
		}
	})
	t.Run("one question for a folder", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl + "apply -f dir; echo code $?")
		s.WaitFor("create configmaps", `Namespace     "`+namespace+`"`, "Calls itself  kubectl",
			enrolled+" at 127.0.0.1:", question)
		s.Type("y\r")
		s.WaitFor("configmap/map-4 created", "code 0")
		s.Exit()
		if n := strings.Count(s.Output(), question); n != 1 {
			t.Errorf("%d questions:\n%s", n, s.Output())
		}
	})
	t.Run("a no is said by kubectl", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl + "delete configmap map-0; echo code $?")
		s.WaitFor("delete configmaps", `"map-0"`, question)
		s.Type("n\r")
		s.WaitFor("(Forbidden)", "code 1")
		s.Exit()
		if out := s.Output(); !strings.Contains(out,
			`no consent to delete configmaps "map-0" in "`+namespace+`": it was refused`) {
			t.Error(out)
		}
	})
	t.Run("type-ahead is no answer", func(t *testing.T) {
		u := u.in(t)
		s := u.sh("printf 'type now '; sleep 1; " + kubectl + "delete configmap map-0; echo code $?")
		s.WaitFor("type now")
		s.Type("y\r")
		s.WaitFor(question)
		s.Type("n\r")
		s.WaitFor("code 1")
		s.Exit()
	})
	t.Run("a dry run whose options are in its body is asked about", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl + "delete configmap map-0 --dry-run=server; echo code $?")
		s.WaitFor(question)
		s.Type("n\r")
		s.WaitFor("code 1")
		s.Exit()
	})
	t.Run("standard input is kubectl's", func(t *testing.T) {
		u := u.in(t)
		s := u.sh("cat dir/1.yaml | sed s/map-1/piped/ | " + kubectl + "apply -f -; echo code $?")
		s.WaitFor(question)
		s.Type("y\r")
		s.WaitFor("configmap/piped created", "code 0")
		s.Exit()
	})
	t.Run("exec asks on the terminal that kubectl made raw", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl +
			"exec -it web -- sh -c 'echo in the pod | tr a-z A-Z; read x; echo got $x'; echo code $?; " +
			"stty -a | grep -o ' icanon'")
		s.WaitFor("get pods/exec", `"web"`, `runs "sh -c echo in the pod`, question)
		s.Type("y\r")
		s.WaitFor("IN THE POD")
		s.Type("hello\r")
		s.WaitFor("got hello", "code 0", " icanon")
		s.Exit()
		if n := strings.Count(s.Output(), question); n != 1 {
			t.Errorf("%d questions:\n%s", n, s.Output())
		}
	})
	t.Run("exec refused leaves the terminal as it was", func(t *testing.T) {
		u := u.in(t)
		s := u.sh(kubectl + "exec -it web -- echo in the pod; echo code $?; stty -a | grep -o ' icanon'")
		s.WaitFor(question)
		s.Type("n\r")
		s.WaitFor("was refused", "code 1", " icanon")
		s.Exit()
		if out := s.Output(); strings.Count(out, question) != 1 || strings.Contains(out, "\nin the pod") {
			t.Error(out)
		}
	})
	t.Run("ctrl-c ends kubectl and its question", func(t *testing.T) {
		u := u.in(t)
		s := u.sh("trap : INT; " + kubectl + "delete configmap map-1; echo code $?; read line; echo $line")
		s.WaitFor(question)
		s.Press(term.CtrlC)
		s.WaitFor("code 130")
		s.WaitUntil("the question has ended its line, too", func(term.Frame) bool { // kubectl does not wait for that
			_, rest, _ := strings.Cut(s.Output(), "^C")
			return strings.Count(rest, "\n") == 2
		})
		s.Type("typed after it\r")
		s.WaitFor("typed after it\ntyped after it")
		s.Exit()
		u.admin("-n", namespace, "get", "configmap", "map-1")
	})
	t.Run("two at once are asked one after the other", func(t *testing.T) {
		u := u.in(t)
		s := u.sh("set +m; " + kubectl + "delete configmap map-2 & " + kubectl + "delete configmap map-3; wait; echo all")
		// The second question appears by itself, and takes no key at first.
		lab.Insist(s, "y\r", "the end of both", func(f term.Frame) bool { return strings.Contains(f.Text(), "\nall") })
		if n := strings.Count(s.Output(), question); n < 2 {
			t.Errorf("%d questions", n)
		}
		s.WaitFor(`"map-2" deleted`, `"map-3" deleted`, "all")
		s.Exit()
		for _, want := range []string{`"map-2" deleted`, `"map-3" deleted`} {
			if !strings.Contains(s.Output(), want) {
				t.Errorf("%s is missing: %q", want, s.Output())
			}
		}
	})
	t.Run("a pager has the terminal", func(t *testing.T) {
		u := u.in(t)
		s := u.sh("(sleep 1; " + kubectl + "delete configmap map-1 2>&1) | less; echo code $?")
		s.WaitFor("is nobody to ask")
		s.Type("q")
		s.WaitFor("code 0")
		s.Exit()
	})
	t.Run("no terminal", func(t *testing.T) {
		u := u.in(t)
		res := u.ran(u.Kubectl(t.Context(), "-n", namespace, "create", "configmap", "y"))
		for _, want := range []string{`kubehsm: no consent to create configmaps in "` + namespace + `"`,
			"there is nobody to ask", "set pinentry"} {
			if res.Code != 1 || !strings.Contains(res.Stderr, want) {
				t.Errorf("%q is missing: %s", want, res)
			}
		}
	})
	t.Run("a window, where pinentry can show one", func(t *testing.T) {
		u := u.in(t)
		window := filepath.Join(u.Dir, "pinentry")
		asked := filepath.Join(u.Dir, "asked")
		script := "#!/bin/sh\necho OK\nwhile read -r line; do echo \"$line\" >>" + asked +
			"; echo OK; [ \"$line\" != BYE ] || exit 0; done\n"
		config := filepath.Join(u.Home, "config.yaml")
		before, err := os.ReadFile(config)
		if err == nil {
			err = errors.Join(os.WriteFile(window, []byte(script), 0o700),
				os.WriteFile(config, append(before, "pinentry: "+window+"\n"...), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		u.ok(u.Run(t.Context(), lab.Run{Env: []string{"DISPLAY=:9"}}, u.Cluster.Kubectl(), "-n", namespace, "create",
			"configmap", "by-window"))
		if b, err := os.ReadFile(asked); err != nil || !strings.Contains(string(b), "create configmaps%0A") {
			t.Errorf("the window was told %q, %v", b, err)
		}
		if err := os.WriteFile(config, before, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("stopped and continued", func(t *testing.T) {
		u := u.in(t)
		s := u.terminal("/bin/bash", "--norc", "-i")
		s.Type("PS1='$ '; " + kubectl + "delete configmap by-window\r")
		s.WaitFor(question)
		s.Press(term.CtrlZ)
		s.WaitFor("Stopped")
		s.Type("echo between\r")
		s.WaitFor("$ echo between\nbetween")
		s.Type("fg\r")
		s.WaitUntil("the question is asked again", func(f term.Frame) bool {
			_, after, _ := strings.Cut(f.Text(), "\nbetween")
			return strings.Contains(after, question)
		})
		s.Type("y\r")
		s.WaitFor(`"by-window" deleted`)
		s.Type("exit\r")
		s.Exit()
	})
	t.Run("kubehsm's own requests", func(t *testing.T) {
		u := u.in(t)
		s := u.terminal(u.Binary, "csr", "create", "--context", enrolled, "--key", key, "--user", "jane", "--accept-risk",
			"forecast")
		s.Answer(pinPrompt, lab.PIN)
		s.WaitFor("create certificatesigningrequests.certificates.k8s.io", "/kubehsm", question)
		s.Type("n\r")
		if s.Exit() == 0 {
			t.Error(s.Output())
		}
	})
	t.Run("a kubeconfig changes nothing", func(t *testing.T) {
		u := u.in(t)
		b, err := os.ReadFile(u.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(u.Dir, "weaker")
		weaker := strings.ReplaceAll(string(b), "enrollment: "+enrolled, "enrollment: "+enrolled+"\n        policy: session")
		if weaker == string(b) {
			t.Fatalf("nothing to change in %s", b)
		}
		if err := os.WriteFile(other, []byte(weaker), 0o600); err != nil {
			t.Fatal(err)
		}
		res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + other}}, u.Cluster.Kubectl(), "-n", namespace,
			"create", "configmap", "y"))
		if res.Code != 1 || !strings.Contains(res.Stderr, "no consent") {
			t.Error(res)
		}
	})
	t.Run("on record", func(t *testing.T) {
		u := u.in(t)
		var log struct {
			Records []struct{ Event, Outcome, Reason, Request, Statement string }
		}
		if err := json.Unmarshal([]byte(u.kubehsm("audit", "-o", "json")), &log); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range log.Records {
			if r.Event == "consent" {
				seen[r.Outcome+" "+r.Reason+" "+r.Request] = true
			}
		}
		for _, want := range []string{`granted answer create configmaps in "` + namespace + `"`,
			`refused answer delete configmaps "map-0" in "` + namespace + `"`,
			`refused nobody delete configmaps "map-1" in "` + namespace + `"`} {
			if !seen[want] {
				t.Errorf("%q is not in %v", want, seen)
			}
		}
	})
	t.Run("always asks for discovery neither", func(t *testing.T) {
		u := u.in(t)
		u.consents("always")
		s := u.sh("rm -rf $KUBECACHEDIR; " + kubectl + "get namespaces -o name; echo code $?")
		s.WaitFor("list namespaces", "all namespaces", question)
		s.Type("y\r")
		s.WaitFor("namespace/default", "code 0")
		s.Exit()
	})
	t.Run("kubectl says what discovery is refused for", func(t *testing.T) {
		u := u.in(t)
		if err := os.RemoveAll(filepath.Join(u.Dir, "kubectl-cache")); err != nil {
			t.Fatal(err)
		}
		res := u.ran(u.Kubectl(t.Context(), "get", "namespaces", "--token", "none"))
		if n := strings.Count(res.Stderr, "Warning: kubehsm: this address takes no bearer token"); res.Code != 1 || n != 1 {
			t.Errorf("said %d times: %s", n, res)
		}
	})
	t.Run("nobody attends after all", func(t *testing.T) {
		u := u.in(t)
		// they see kubectl's end before long
		poll.Until(t, "no attendant is left", func() bool { return u.attendants() == 0 })
	})
}

// attendants counts the lab's attendants.
func (u *user) attendants() (n int) {
	u.t.Helper()
	processes, err := u.Processes()
	if err != nil {
		u.t.Fatal(err)
	}
	for _, line := range processes {
		if strings.Contains(line, "--attend") {
			n++
		}
	}
	return n
}
