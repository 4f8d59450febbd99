//go:build linux

package transparency

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/term"
)

// protocols are how exec, attach, cp and port-forward travel.
var protocols = map[string][]string{
	"WebSocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"},
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// over is the stage with kubectl made to use a protocol.
func (s *stage) over(env []string) *stage {
	c := *s
	c.direct.env = slices.Concat(c.direct.env, env)
	c.bridge.env = slices.Concat(c.bridge.env, env)
	return &c
}

// streams are commands that change the protocol, or whose answers do not end.
func (s *stage) streams() {
	s.T.Run("logs", func(t *testing.T) { s.in(t).logs() })
	for name, env := range protocols {
		s.T.Run(name, func(t *testing.T) {
			s := s.in(t).over(env)
			s.wants(s.same("", "exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 7"), 7, "out\n", "err\n")
			s.wants(s.same("", "exec", "p", "--", "sh", "-c", "kill -9 $$"), 137)
			s.wants(s.same("", "exec", "p", "--", "no-such-program"), 1, "no-such-program")
			s.wants(s.same("", "exec", "none", "--", "true"), 1, "not found")
			s.wants(s.same("through\n", "exec", "-i", "p", "--", "cat"), 0, "through\n")
			s.wants(s.same("heard\n", "attach", "-q", "-i", "p"), 0, "attached\nheard\n")
			much := strings.Repeat("all of it\n", 1<<20)
			if res := s.same(much, "exec", "-i", "p", "--", "cat"); res.Stdout != much {
				s.T.Errorf("%d bytes came back of %d", len(res.Stdout), len(much))
			}
			s.copies()
			s.forwards()
		})
	}
}

func (s *stage) logs() {
	s.Admin("exec", "p", "--", "sh", "-c", "seq 100000 >log")
	s.wants(s.same("", "logs", "p"), 0, "\n100000\n")
	for _, w := range s.ways() {
		terminal := s.Terminal(w.env, s.Cluster.Kubectl(), "logs", "-f", "p")
		terminal.WaitFor("100000")
		s.Admin("exec", "p", "--", "sh", "-c", "echo written later >>log")
		terminal.WaitFor("written later")
		terminal.Press(term.CtrlC)
		if code := terminal.Exit(); code != 1 { // kubectl's own choice
			s.T.Errorf("%s: ctrl-c ends logs -f with %d", w.name, code)
		}
	}
}

// copies sends a file into the pod and fetches it.
func (s *stage) copies() {
	dir := s.T.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	content := make([]byte, 20<<20)
	_, err := rand.Read(content)
	s.Must(err)
	file := filepath.Join(dir, "file")
	s.Must(os.WriteFile(file, content, 0o600))
	s.wants(s.same("", "cp", file, "p:"+there), 0)
	s.wants(s.same("", "exec", "p", "--", "sha256sum", there), 0, digestOf(content))
	s.wants(s.same("", "cp", "p:"+there, back), 0)
	got, err := os.ReadFile(back)
	s.Must(err)
	if !bytes.Equal(got, content) {
		s.T.Error("another file came back")
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forwards reaches an HTTP server through a port of the pod.
func (s *stage) forwards() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	s.T.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	body := bytes.Repeat([]byte("to and fro "), 1<<20)
	for _, w := range s.ways() {
		terminal := s.Terminal(w.env, s.Cluster.Kubectl(), "port-forward", "pod/p", ":"+port)
		terminal.WaitFor("Forwarding from 127.0.0.1:")
		address := forwarding.FindStringSubmatch(terminal.Screen())[1]
		for range 2 { // two connections
			if got := s.post("http://"+address, body); !bytes.Equal(got, body) {
				s.T.Errorf("%s: %d bytes came back of %d", w.name, len(got), len(body))
			}
			http.DefaultClient.CloseIdleConnections()
		}
		terminal.Press(term.CtrlC)
		terminal.Exit()
	}
}

func (s *stage) post(url string, body []byte) []byte {
	s.T.Helper()
	resp, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	s.Must(err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	s.Must(err)
	return got
}

// proxies is `kubectl proxy`, which leaves the path of the server's address out
// unless it is told not to.
func (s *stage) proxies() {
	for _, w := range s.ways() {
		for _, options := range [][]string{nil, {"--append-server-path"}} {
			terminal := s.Terminal(w.env, s.Cluster.Kubectl(), append([]string{"proxy", "--port=0"}, options...)...)
			terminal.WaitFor("Starting to serve on 127.0.0.1:")
			address := regexp.MustCompile(`serve on (127\.0\.0\.1:\d+)`).FindStringSubmatch(terminal.Screen())[1]
			for path, want := range map[string]string{
				"/version": "gitVersion",
				"/api/v1/namespaces/default/configmaps/read":     `"a":"b"`,
				"/api/v1/namespaces/default/pods/p/log":          "100000",
				"/api/v1/namespaces/default/configmaps?limit=1":  "ConfigMapList",
				"/api/v1/namespaces/default/configmaps/no%2Fone": "Status",
			} {
				if got := s.get("http://" + address + path); !strings.Contains(got, want) {
					s.T.Errorf("%s %v: %s: %.300s", w.name, options, path, got)
				}
			}
			terminal.Press(term.CtrlC)
			terminal.Exit()
		}
	}
}

func (s *stage) get(url string) string {
	s.T.Helper()
	resp, err := http.Get(url)
	s.Must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	s.Must(err)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}
