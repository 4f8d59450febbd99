//go:build linux

package informers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

const namespace = "informers"

// life is what the hours of a certificate are cut down to.
const life = 3 * time.Second

// scene is two informers on the same objects: with a key file, and through the bridge.
type scene struct {
	*lab.Person
	plugin         lab.Plugin
	writer, client dynamic.Interface
	direct, bridge *watcher
	round          int
}

// newScene has credentials expire after life, or as they do where it is 0.
func newScene(t *testing.T, life time.Duration) *scene {
	c := controlplane.StartForTest(t, controlplane.Options{})
	s := &scene{Person: lab.ForTest(t, lab.Options{Cluster: c})}
	s.Must(s.Enroll(t.Context()))
	var err error
	s.plugin, err = s.InterposePlugin(life)
	s.Must(err)
	s.Admin("create", "namespace", namespace)
	keyFile, err := c.KubeconfigFor(lab.User, lab.DevelopersGroup)
	s.Must(err)
	s.writer, s.client = client(t, keyFile), client(t, s.Kubeconfig)
	s.direct, s.bridge = watch(t, client(t, keyFile), namespace), watch(t, s.client, namespace)
	return s
}

// during writes while disturb goes on, and then checks that the bridge's informer
// knows what the direct one does. Returned are the events that the direct one was
// told and the other was not: after a gap an informer lists anew, and is told the
// outcome of what it missed.
func (s *scene) during(t *testing.T, disturb func()) (missed []string) {
	t.Helper()
	s.Person = s.In(t)
	directBefore, bridgeBefore := len(s.direct.told()), len(s.bridge.told())
	traffic := start(t, s.writer, namespace, 25*time.Millisecond)
	disturb()
	writes := traffic.end()
	s.round++
	marker := fmt.Sprintf("marker-%d", s.round)
	s.Admin("-n", namespace, "create", "configmap", marker)
	for what, w := range map[string]*watcher{"direct": s.direct, "bridge's": s.bridge} {
		poll.Until(t, "the "+what+" informer sees "+marker, func() bool { return w.knows(marker) })
	}
	if d, b := s.direct.state(), s.bridge.state(); !slices.Equal(d, b) {
		t.Errorf("directly:\n%s\nthrough the bridge:\n%s", strings.Join(d, "\n"), strings.Join(b, "\n"))
	}
	direct, bridge := s.direct.told()[directBefore:], s.bridge.told()[bridgeBefore:]
	for _, e := range direct {
		if !slices.Contains(bridge, e) {
			missed = append(missed, e)
		}
	}
	t.Logf("%d writes, %d events directly, %d through the bridge, %d missed, %d runs of the plugin so far",
		writes, len(direct), len(bridge), len(missed), s.plugin.Runs())
	return missed
}

// lossless is during, wanting every single event.
func (s *scene) lossless(t *testing.T, disturb func()) {
	t.Helper()
	if missed := s.during(t, disturb); len(missed) > 0 {
		t.Errorf("not told through the bridge:\n%s", strings.Join(missed, "\n"))
	}
}

// calm is while nothing else happens.
func (s *scene) calm() {
	begin := len(s.direct.told())
	poll.Until(s.T, "there are some events", func() bool { return len(s.direct.told()) > begin+30 })
}

// served waits until the bridge's client gets an answer of the API server.
func (s *scene) served() {
	s.T.Helper()
	poll.Until(s.T, "the bridge's client is served", func() bool {
		_, err := s.client.Resource(configMaps).Namespace(namespace).Get(s.T.Context(), "none", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func TestInformers(t *testing.T) {
	t.Parallel()
	s := newScene(t, life)
	fourRuns := func() {
		want := s.plugin.Runs() + 4
		poll.Until(s.T, "the plugin was run four times", func() bool {
			s.served()
			return s.plugin.Runs() >= want
		})
	}
	t.Run("the credential expires", func(t *testing.T) { s.lossless(t, fourRuns) })
	t.Run("the certificate changes", func(t *testing.T) {
		s.Must(s.plugin.Rotate(life))
		s.during(t, fourRuns) // client-go closes its connections then
		s.lossless(t, s.calm)
	})
	t.Run("the API server crashes", func(t *testing.T) {
		s.during(t, func() {
			for range 2 {
				s.Must(s.Cluster.RestartAPIServer(t.Context()))
				s.served()
			}
		})
		s.lossless(t, s.calm)
	})
	t.Run("the agent crashes", func(t *testing.T) {
		s.during(t, func() {
			before, err := s.Status(t.Context())
			s.Must(err)
			s.Must(syscall.Kill(before.PID, syscall.SIGKILL))
			s.troubled(t, func() {})
		})
		s.lossless(t, s.calm)
	})
	t.Run("the token is taken away", func(t *testing.T) {
		s.during(t, func() {
			back := s.pull()
			s.troubled(t, back)
		})
		s.lossless(t, s.calm)
	})
}

// pull takes the token away, until the agent knows; back puts it in again.
func (s *scene) pull() (back func()) {
	s.T.Helper()
	aside := s.Soft.Tokens + ".taken"
	s.Must(os.Rename(s.Soft.Tokens, aside))
	s.Must(os.Mkdir(s.Soft.Tokens, 0o700))
	ctx, cancel := context.WithTimeout(s.T.Context(), poll.Patience)
	defer cancel()
	_, err := s.WaitForAgent(ctx, func(st message.Status) bool {
		return !slices.ContainsFunc(st.Tokens, func(tk message.TokenStatus) bool { return tk.Unlocked })
	})
	s.Must(err)
	return func() {
		s.Must(os.Remove(s.Soft.Tokens))
		s.Must(os.Rename(aside, s.Soft.Tokens))
	}
}

// troubled is a time in which the bridge's client gets nowhere, as nobody types
// the PIN, and then its end: repair, and an unlock. The client must not run the
// plugin in a hot loop meanwhile. A slow machine runs it less often, never more.
func (s *scene) troubled(t *testing.T, repair func()) {
	runs := s.plugin.Runs()
	select { // the watch must bring nothing
	case <-time.After(2 * life):
	case <-t.Context().Done():
	}
	repair()
	s.Must(s.Unlock(t.Context()))
	s.served()
	if n := s.plugin.Runs() - runs; n > 30 {
		t.Errorf("the plugin was run %d times", n)
	}
}
