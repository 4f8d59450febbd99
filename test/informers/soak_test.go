//go:build linux

package informers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/poll"
)

// soak is how long [TestSoak] lasts: `make soak` takes ten minutes.
var soak = flag.Duration("soak", 20*time.Second, "how long the soak lasts")

// What goes on all the time.
const (
	soakWatchers = 50
	soakLoops    = 20
)

// TestSoak: 50 informers and 20 loops of kubectl go on while the API server
// crashes and the token is pulled. Nobody may lose sight of an object, and the
// agent must end as it began: no file descriptor, connection, session or memory
// left behind.
func TestSoak(t *testing.T) {
	t.Parallel()
	crashes, pulls := 1, 1
	if *soak >= 2*time.Minute {
		crashes, pulls = 5, 2
	}
	s := newScene(t, 0)
	watchers := []*watcher{s.bridge}
	for len(watchers) < soakWatchers {
		watchers = append(watchers, watch(t, s.client, namespace))
	}
	traffic := start(t, s.writer, namespace, 100*time.Millisecond)
	loops := s.loop()
	part := *soak / time.Duration(crashes+pulls+1)
	pass := func() {
		select { // the soak goes on for its whole time
		case <-time.After(part):
		case <-t.Context().Done():
		}
	}
	pass()
	before := loops.pausedFor(s.condition)
	for i := range crashes + pulls {
		loops.troubled.Store(true)
		if i%3 == 1 {
			s.pull()()
			s.Must(s.Unlock(t.Context()))
		} else {
			s.Must(s.Cluster.RestartAPIServer(t.Context()))
		}
		s.served()
		loops.untroubled()
		pass()
	}
	after := loops.pausedFor(s.condition)
	loops.end()
	writes := traffic.end()

	s.Admin("-n", namespace, "create", "configmap", "last")
	poll.Until(t, "the informer that goes without the agent sees the last object",
		func() bool { return s.direct.knows("last") })
	direct := s.direct.state()
	for i, w := range watchers {
		poll.Until(t, fmt.Sprintf("informer %d sees the last object", i), func() bool { return w.knows("last") })
		if got := w.state(); !slices.Equal(got, direct) {
			t.Errorf("informer %d:\n%s\ndirectly:\n%s", i, strings.Join(got, "\n"), strings.Join(direct, "\n"))
		}
	}
	st, err := s.Status(t.Context())
	s.Must(err)
	t.Logf("%s: %d crashes of the API server, %d pulls of the token, %d writes, %d commands (%d more failed during trouble), %d signatures, %d dials, %d runs of the plugin by the informers",
		*soak, crashes, pulls, writes, loops.succeeded.Load(), loops.excused.Load(), st.Signatures, st.Dials,
		s.plugin.Runs()-int(loops.runs.Load()))
	t.Logf("before: %+v", before)
	t.Logf("after:  %+v", after)
	if n := loops.failed.Load(); n > 0 {
		t.Errorf("%d commands failed while all was well; the last: %s", n, loops.last.Load())
	}
	// One kept connection more or less is no leak; one for each command would be.
	if after.Files > before.Files+10 {
		t.Errorf("%d open files before, %d after", before.Files, after.Files)
	}
	if after.Memory > before.Memory+before.Memory/2+16 {
		t.Errorf("%d MB before, %d MB after", before.Memory, after.Memory)
	}
	if after.PID != before.PID {
		t.Errorf("the agent was process %d and is %d", before.PID, after.PID)
	}
}

// condition is how the agent is.
type condition struct {
	PID, Files int
	Memory     uint64 // MB
}

func (s *scene) condition() condition {
	s.T.Helper()
	// A command that has just ended is still being tidied up after.
	ctx, cancel := context.WithTimeout(s.T.Context(), poll.Patience)
	defer cancel()
	st, err := s.WaitForAgent(ctx, func(st message.Status) bool {
		return len(st.Upstreams) == 1 && st.Upstreams[0].InFlight <= soakWatchers
	})
	s.Must(err)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", st.PID))
	s.Must(err)
	return condition{PID: st.PID, Files: len(files), Memory: st.Memory >> 20}
}

// loops are people who use kubectl again and again.
type loops struct {
	// troubled says that commands may fail.
	troubled                         atomic.Bool
	succeeded, failed, excused, runs atomic.Int64
	last                             atomic.Value // string: how the last failure ended
	gate                             sync.RWMutex // held for reading while a command runs
	cancel                           context.CancelFunc
	group                            sync.WaitGroup
}

func (s *scene) loop() *loops {
	ctx, cancel := context.WithCancel(s.T.Context())
	l := &loops{cancel: cancel}
	for range soakLoops {
		l.group.Go(func() {
			for ctx.Err() == nil {
				l.command(ctx, s)
				select { // a person thinks
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
			}
		})
	}
	return l
}

func (l *loops) command(ctx context.Context, s *scene) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	excused := l.troubled.Load()
	res, err := s.Kubectl(ctx, "-n", namespace, "get", "configmaps", "-o", "name")
	l.runs.Add(1)
	switch {
	case ctx.Err() != nil:
	case err == nil && res.Code == 0:
		l.succeeded.Add(1)
	case excused || l.troubled.Load():
		l.excused.Add(1)
	default:
		l.failed.Add(1)
		l.last.Store(fmt.Sprint(res, err))
	}
}

// untroubled waits for the commands that began in trouble.
func (l *loops) untroubled() {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.troubled.Store(false)
}

// pausedFor looks while no command runs.
func (l *loops) pausedFor(look func() condition) condition {
	l.gate.Lock()
	defer l.gate.Unlock()
	return look()
}

func (l *loops) end() {
	l.cancel()
	l.group.Wait()
}
