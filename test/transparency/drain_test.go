//go:build linux

package transparency

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// drainFlags are those of an API server that says at times that its client had better
// connect anew (GOAWAY), and that ends watches within two seconds when it drains.
var drainFlags = []string{"--goaway-chance=0.02", "--shutdown-delay-duration=2s", "--shutdown-send-retry-after",
	"--shutdown-watch-termination-grace-period=2s"}

// goesAway has the API server end connections that carry many requests: no command
// notices.
func (s *stage) goesAway(server string, direct, bridge *faulty) {
	s.T.Helper()
	direct.to(server)
	bridge.to(server)
	s.kubectl(s.bridge, "", "get", "configmap", "read", "-o", "name") // the bridge is connected
	before, err := s.Status(s.T.Context())
	s.Must(err)
	// Each object is a write of its own: reads would use lanes, which are HTTP/1.1.
	many := slices.Concat([]string{"annotate", "--overwrite", "-o", "name"},
		slices.Repeat([]string{"configmap/read"}, 50), []string{"away=yes"})
	if !poll.Within(poll.Patience, func() bool {
		s.wants(s.alike("", many...), 0, "configmap/read")
		after, err := s.Status(s.T.Context())
		s.Must(err)
		return s.T.Failed() || after.Dials > before.Dials
	}) {
		s.T.Error("the API server has ended no connection of the bridge's")
	}
}

// watching is how many watches of ConfigMaps an API server has.
var watching = regexp.MustCompile(
	`(?m)^apiserver_longrunning_requests\{.*resource="configmaps".*verb="WATCH".*\} (\d+)$`)

// drains has the API server end as it does when a cluster is updated, while the next one
// takes new connections: commands come to the same end, whatever they were doing.
func (s *stage) drains(server string, direct, bridge *faulty) {
	s.T.Helper()
	for _, f := range []*faulty{direct, bridge} {
		f.to(server, s.Cluster.Server()) // a client that finds the first gone is sent to the other
	}
	var long sync.WaitGroup
	protocols := []*stage{s, s.over([]string{"DISABLE_HTTP2=1"})}
	commands := []string{"get configmaps --watch -o name",
		"wait --for=jsonpath={.data.drained}=yes configmap/read --timeout=120s"}
	for _, at := range protocols {
		for _, c := range commands {
			at.compare(&long, c)
		}
	}
	if !poll.Within(poll.Patience, func() bool {
		metrics, err := s.Cluster.Admin(s.T.Context(), "", "--server="+server, "get", "--raw", "/metrics")
		s.Must(err)
		n := 0
		for _, m := range watching.FindAllStringSubmatch(metrics, -1) {
			of, err := strconv.Atoi(m[1])
			s.Must(err)
			n += of
		}
		return n >= 2*len(protocols)*len(commands)
	}) {
		s.T.Error("not all commands watch")
	}
	gone := make(chan struct{})
	var short sync.WaitGroup
	short.Go(func() {
		defer close(gone)
		if err := s.Cluster.DrainAPIServer(s.T.Context(), server); err != nil {
			s.T.Error(err)
		}
	})
	for _, w := range s.ways() { // in turn, like in a script
		short.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("drained-%d", i)
				s.wants(s.kubectl(w, "", "-n", w.namespace, "create", "configmap", name), 0, name+" created")
				s.wants(s.kubectl(w, "", "-n", w.namespace, "get", "configmap", name, "-o", "name"), 0, name)
				select {
				case <-gone:
					return
				default:
				}
			}
		})
	}
	short.Wait()
	s.Admin("patch", "configmap", "read", "-p", `{"data":{"drained":"yes"}}`)
	long.Wait()
}

// compare runs a command both ways at once, and compares when both have ended.
func (s *stage) compare(wait *sync.WaitGroup, command string) {
	wait.Go(func() {
		var did [2]lab.Result
		var both sync.WaitGroup
		for i, w := range s.ways() {
			both.Go(func() {
				did[i] = s.kubectl(w, "", strings.Fields(command)...)
				did[i].Stderr = disabled.ReplaceAllString(did[i].Stderr, "")
			})
		}
		both.Wait()
		s.T.Logf("%s: %.300s", command, did[1])
		if did[0] != did[1] {
			s.T.Errorf("%s\n--- directly: %.600s\n--- through the bridge: %.600s", command, did[0], did[1])
		}
	})
}
