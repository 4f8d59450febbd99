//go:build linux

package transparency

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// terminals are commands that a person uses on a terminal.
func (s *stage) terminals() {
	for protocol, env := range protocols {
		for _, w := range s.over(env).ways() {
			s.T.Run(protocol+" "+w.name, func(t *testing.T) {
				s := s.in(t)
				s.shell(w)
				s.attached(w)
			})
		}
	}
	for _, w := range s.ways() {
		s.T.Run(w.name, func(t *testing.T) {
			s := s.in(t)
			s.pager(w)
			s.watched(w)
			s.suspended(w)
			s.edited(w)
		})
	}
}

// shell is exec -it: the size of the window, ctrl-c for the program in the pod,
// and its exit code.
func (s *stage) shell(w way) {
	terminal := s.Terminal(w.env, s.Cluster.Kubectl(), "exec", "-it", "p", "--", "sh", "-c",
		`until [ "$(stty size)" = "30 100" ]; do sleep 0.05; done; echo sized
trap 'echo "interrupted at $(stty size)"; exit 3' INT; echo ready; while :; do sleep 0.1; done`)
	terminal.WaitFor("sized", "ready")
	terminal.Resize(120, 40)
	terminal.Type("typed\r")
	terminal.WaitFor("typed")
	poll.Until(s.T, "the pod knows the new size", func() bool {
		return strings.Contains(s.Admin("exec", "p", "--", "sh", "-c",
			"for t in /dev/pts/[0-9]*; do stty size <$t 2>/dev/null; done; true"), "40 120")
	})
	terminal.Press(term.CtrlC)
	terminal.WaitFor("interrupted at 40 120")
	if code := terminal.Exit(); code != 3 {
		s.T.Errorf("exit code %d, want the program's 3", code)
	}
}

func (s *stage) attached(w way) {
	terminal := s.Terminal(w.env, s.Cluster.Kubectl(), "attach", "-it", "p")
	terminal.WaitFor("attached")
	terminal.Type("heard in the pod\r")
	terminal.WaitFor("heard in the pod\nheard in the pod") // the echo, and cat's
	terminal.Press(term.CtrlD)
	if code := terminal.Exit(); code != 0 {
		s.T.Errorf("exit code %d", code)
	}
}

// pager is a page of less, which holds the terminal in raw mode.
func (s *stage) pager(w way) {
	need.Program(s.T, "less")
	terminal := s.Terminal(w.env, "/bin/sh", "-c", "kubectl get configmap read -o yaml | less")
	terminal.WaitFor("a: b", "(END)")
	terminal.Type("q")
	if code := terminal.Exit(); code != 0 {
		s.T.Errorf("exit code %d", code)
	}
}

func (s *stage) watched(w way) {
	need.Program(s.T, "watch")
	terminal := s.Terminal(w.env, "watch", "-n", "0.3", "kubectl get configmaps -o name")
	terminal.WaitFor("configmap/read")
	name := "seen-" + w.name
	s.Admin("create", "configmap", name)
	terminal.WaitFor("configmap/" + name)
	terminal.Press(term.CtrlC)
	terminal.Exit()
}

// suspended is kubectl stopped by ctrl-z in the middle of a watch, and continued.
func (s *stage) suspended(w way) {
	name := "while-stopped-" + w.name
	terminal := s.Terminal(w.env, "/bin/bash", "--norc", "-i")
	terminal.Type("PS1='$ '; kubectl get configmaps --watch -o name\r")
	terminal.WaitFor("configmap/read")
	terminal.Press(term.CtrlZ)
	terminal.WaitFor("Stopped")
	s.Admin("create", "configmap", name)
	terminal.Type("fg\r")
	terminal.WaitFor("configmap/" + name)
	terminal.Press(term.CtrlC)
	terminal.Type("exit\r")
	terminal.Exit()
}

// edited is kubectl edit, with an editor that needs no person.
func (s *stage) edited(w way) {
	s.Admin("create", "configmap", "edited", "--from-literal=a=old")
	terminal := s.Terminal(append(w.env, "KUBE_EDITOR=sed -i s/old/new/"), s.Cluster.Kubectl(), "edit", "configmap",
		"edited")
	terminal.WaitFor("configmap/edited edited")
	if code := terminal.Exit(); code != 0 {
		s.T.Errorf("exit code %d", code)
	}
	s.Admin("delete", "configmap", "edited")
}
