//go:build linux

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// question is in the words that ask for consent.
const question = "Allow it? [y/N]"

// TestConsent: a command that changes something, or connects, asks once on its own terminal.
func TestConsent(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	key := u.enroll().Key
	namespace := unique("consent")
	u.admin("create", "namespace", namespace)
	must.OK(t, u.Cluster.RunPod(t.Context(), namespace, "web"))
	dir := filepath.Join(u.Dir, "dir")
	must.OK(t, os.Mkdir(dir, 0o700))
	for i := range 5 {
		manifest := strings.Replace(configMap, "NAME", fmt.Sprint("map-", i), 1)
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(manifest), 0o600))
	}
	u.consents("writes")
	kubectl := "kubectl -n " + namespace + " "

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
		must.OK(t, os.RemoveAll(filepath.Join(u.Dir, "kubectl-cache")))
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
	must.OK(u.t, err)
	for _, line := range processes {
		if strings.Contains(line, "--attend") {
			n++
		}
	}
	return n
}
