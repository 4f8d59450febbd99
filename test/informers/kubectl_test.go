//go:build linux

package informers

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// stream is what a running program has written.
type stream struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestKubectlWatchesEndAlike: where the API server is killed, "kubectl get
// --watch" says and does through the bridge what it does with a key file.
func TestKubectlWatchesEndAlike(t *testing.T) {
	t.Parallel()
	c := controlplane.StartForTest(t, controlplane.Options{})
	s := &scene{Person: lab.ForTest(t, lab.Options{Cluster: c})}
	s.Must(s.Enroll(t.Context()))
	s.Admin("create", "namespace", namespace)
	keyFile, err := c.KubeconfigFor(lab.User, lab.DevelopersGroup)
	s.Must(err)
	type watch struct {
		name           string
		cmd            *exec.Cmd
		stdout, stderr stream
	}
	var all []*watch
	for _, kubeconfig := range []string{keyFile, s.Kubeconfig} {
		for _, protocol := range []string{"", "1"} { // client-go's own variable
			for _, output := range []string{"wide", "name"} {
				w := &watch{name: fmt.Sprintf("%s, -o %s, DISABLE_HTTP2=%s", filepath.Base(kubeconfig), output, protocol)}
				w.cmd = exec.CommandContext(t.Context(), c.Kubectl(), "--kubeconfig", kubeconfig, "-n", namespace,
					"get", "configmaps", "--watch", "--watch-only", "-o", output)
				w.cmd.Env = append(s.Env(), "DISABLE_HTTP2="+protocol)
				w.cmd.Stdout, w.cmd.Stderr = &w.stdout, &w.stderr
				s.Must(w.cmd.Start())
				all = append(all, w)
			}
		}
	}
	n := 0
	poll.Until(t, "everyone is shown a new object", func() bool {
		n++
		s.Admin("-n", namespace, "create", "configmap", fmt.Sprintf("object-%d", n))
		return !slices.ContainsFunc(all, func(w *watch) bool { return w.stdout.String() == "" })
	})
	const last = "the-last-one"
	s.Admin("-n", namespace, "create", "configmap", last)
	for _, w := range all {
		poll.Until(t, w.name+" shows the last object", func() bool { return strings.Contains(w.stdout.String(), last) })
	}
	s.Must(c.RestartAPIServer(t.Context()))
	for _, w := range all {
		err := w.cmd.Wait()
		_, after, _ := strings.Cut(w.stdout.String(), last)
		_, after, _ = strings.Cut(after, "\n")
		said := strings.TrimSpace(w.stderr.String())
		quiet := said == "" || strings.HasSuffix(said, "HTTP2 has been explicitly disabled") && !strings.Contains(said, "\n")
		if after != "" || !quiet || err != nil {
			t.Errorf("%s: %v\n%s\n%s", w.name, err, after, said)
		}
	}
}
