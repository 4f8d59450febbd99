package host

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

var check = need.NoError

// agentProgram tells the test binary, started as `exe agent serve`, how to behave.
const agentProgram = "KUBEHSM_TEST_AGENT"

// agentVersion is the version that it says it has.
const agentVersion = "KUBEHSM_TEST_VERSION"

// requests are the variables that a program which starts the agent may have.
var requests = append(signer.EnvVars(), execcredential.EnvVar)

// moodyDir is the folder of what moody rigs share, if there are any.
var moodyDir string

// variablesSuffix is that of a file with variables, beside a link to this program.
const variablesSuffix = ".env"

// ownVariables sets the variables of a program that was started by such a link: its test
// may run beside others, whose agents have the same parent.
func ownVariables() error {
	b, err := os.ReadFile(os.Args[0] + variablesSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	return err
}

func TestMain(m *testing.M) {
	if err := ownVariables(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == "serve" {
		os.Exit(agentMain())
	}
	if len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == "worker" {
		if err := workerMain(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "client" {
		clientMain()
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // those that are parallel wait most of the time
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(moodyDir) // a temporary folder
	os.Exit(code)
}

func agentMain() int {
	d, err := home.FromEnv(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	ready, err := ReadyFile(os.Getenv, os.Unsetenv)
	for _, name := range requests {
		if err == nil && os.Getenv(name) != "" {
			err = errors.New("the agent was given " + name)
		}
	}
	port, perr := PassedPort(os.Getenv, os.Unsetenv)
	err = errors.Join(err, perr)
	if err == nil && os.Getenv(agentProgram) == "fail" {
		err = errors.New("a reason to fail")
	}
	if err == nil {
		o := Options{Dirs: d, Version: os.Getenv(agentVersion), Ready: ready,
			Supervised: os.Getenv(agentProgram) == "supervised", Port: port, identify: believe, whose: believeSession}
		if os.Getenv(agentProgram) == "other protocol" {
			o.protocol = wire.Version + 1
		}
		switch os.Getenv(agentProgram) {
		case "workers":
			o.Tokens = NewTokens(os.Args[0], nil)
		case "workers, soon idle":
			o.Tokens = NewTokens(os.Args[0], nil)
			o.Unlock.Idle, o.sweepEvery = 5*time.Second, 50*time.Millisecond
		}
		err = Serve(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

const pin = "847261"

// rig is an agent with a token, a stand-in API server, and one enrollment.
type rig struct {
	t      testing.TB
	dir    string
	dirs   home.Dirs
	store  enrollment.Store
	fake   *hsmtest.Fake
	token  *hsmtest.FakeToken
	slot   hsm.Slot
	api    *bridgetest.Server
	e      enrollment.Enrollment
	key    crypto.Signer // key of the enrollment, where it is on no token of fake
	ep     loopback.Endpoint
	cancel context.CancelFunc
	done   chan error
	agent  *agent // once it is ready
}

type rigOptions struct {
	api   bridgetest.Options
	token hsmtest.FakeOptions
	life  time.Duration
	idle  bool // do not serve
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	dir := t.TempDir()
	d := dirsOf(t, dir)
	r := &rig{t: t, dir: dir, dirs: d, store: enrollment.NewStore(d), fake: hsmtest.NewFake(hsm.SchemePKCS11),
		api: bridgetest.New(t, o.api)}
	o.token.PIN = pin
	r.token = r.fake.Add(o.token)
	r.slot = r.generate(r.token)
	if o.life == 0 {
		o.life = time.Hour
	}
	r.enroll(o.life)
	if !o.idle {
		r.serve(Options{})
	}
	return r
}

func (r *rig) generate(on *hsmtest.FakeToken) hsm.Slot {
	r.t.Helper()
	tok, err := r.fake.Open(context.Background(), on.Info().URI())
	check(r.t, err)
	slot, err := tok.Generate(context.Background(), hsm.GenerateOptions{Label: "kubehsm"}, hsmtest.Typing(r.t, pin))
	check(r.t, errors.Join(err, tok.Lock()))
	return slot
}

// enroll enrolls the key of the slot, with a certificate for that time.
func (r *rig) enroll(life time.Duration) {
	r.t.Helper()
	hash, err := hsm.Fingerprint(r.slot.Key.Public)
	check(r.t, err)
	r.e = enrollment.Enrollment{Name: "prod", Context: "prod", Key: r.slot.URI, KeyHash: hash, User: "alice",
		Created: time.Now(), Cluster: cluster.Cluster{Server: r.api.URL, CAData: r.api.CAPEM}}
	r.e = r.save(r.e)
	check(r.t, r.store.SaveCertificate(r.e, []*x509.Certificate{r.api.Certificate(r.t, r.slot.Key.Public, "alice", life)}))
	r.ep, err = loopback.Setup(r.dirs)
	check(r.t, err)
}

// save stores e, signed by its key, which is on one of the tokens.
func (r *rig) save(e enrollment.Enrollment) enrollment.Enrollment {
	r.t.Helper()
	e = r.signed(e)
	check(r.t, r.store.Save(e))
	return e
}

// signed is e, signed by its key. The tokens count no signature.
func (r *rig) signed(e enrollment.Enrollment) enrollment.Enrollment {
	r.t.Helper()
	key := r.key
	if key == nil {
		key = r.fake.Key(e.KeyHash)
	}
	if key != nil {
		e, err := e.SignedBy(key, time.Now())
		check(r.t, err)
		return e
	}
	r.t.Fatalf("the key of %s is on no token", e.Name)
	return e
}

// dirsOf are the folders of a user whose home is dir.
func dirsOf(t testing.TB, dir string) home.Dirs {
	t.Helper()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	check(t, d.Prepare())
	return d
}

// serve runs an agent in this process.
func (r *rig) serve(o Options) {
	r.t.Helper()
	o.Dirs, o.Version = r.dirs, "test"
	if o.Tokens == nil {
		o.Tokens = worker.InProcess(hsm.Drivers{keepOpen{r.fake}})
	}
	ctx, cancel := context.WithCancel(context.Background())
	pr, pw, err := os.Pipe()
	check(r.t, err)
	o.Ready = pw
	o.made = func(a *agent) { r.agent = a }
	if o.identify == nil {
		o.identify, o.whose = believe, believeSession
	}
	done := make(chan error, 1)
	r.cancel, r.done = cancel, done
	go func() { done <- Serve(ctx, o) }()
	b, err := io.ReadAll(pr)
	check(r.t, err)
	check(r.t, pr.Close())
	if string(b) != child.ReadyLine {
		r.t.Fatalf("not ready: %q %v", b, <-r.done)
	}
	r.t.Cleanup(r.end)
}

// believe is identify for clients that are made up, by the purpose that [as] gives.
func believe(_ process.ID, own bool, said hsm.Purpose) (process.ID, []process.ID, error) {
	who := process.Parent()
	if own {
		who = process.This()
	}
	if _, err := fmt.Sscanf(said.Cluster, "evil %d %d", &who.PID, &who.Start); err != nil && said.Cluster != "" {
		return who, nil, err
	}
	return who, nil, nil
}

// as is the purpose of a client that is made up.
func as(who bridge.Client) hsm.Purpose {
	return hsm.Purpose{Cluster: fmt.Sprintf("evil %d %d", who.PID, who.Start), Command: "kubectl get pods"}
}

// believeSession says that the client that shows a certificate is the one that the
// certificate was made for.
func believeSession(_, _ netip.AddrPort, of process.ID, _ []process.ID) (process.ID, bool, error) {
	return of, true, nil
}

// mustAgent calls f with the agent of this process.
func (r *rig) mustAgent(f func(*agent)) {
	r.t.Helper()
	if r.agent == nil {
		r.t.Fatal("there is no agent")
	}
	f(r.agent)
}

// unattended has no attendant awaited any more: as if an hour had gone by.
func (r *rig) unattended() {
	r.t.Helper()
	r.mustAgent(func(a *agent) { a.responders.Expect(process.ID{}, time.Now().Add(time.Hour)) })
}

// end ends the agent of this process and checks that it ends well.
func (r *rig) end() {
	r.t.Helper()
	r.cancel()
	if r.done != nil {
		check(r.t, <-r.done)
		r.done = nil
	}
}

// keepOpen keeps the fake's tokens usable for the next agent.
type keepOpen struct{ hsm.Driver }

func (keepOpen) Close() error { return nil }

func (r *rig) dial() *client.Client {
	r.t.Helper()
	c, err := client.Dial(context.Background(), r.dirs)
	check(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// runs reports whether an agent answers.
func (r *rig) runs() bool {
	c, err := client.Dial(context.Background(), r.dirs)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// caller is a made-up process that lives as long as the test.
func caller(n int) bridge.Client { return bridge.Client{PID: os.Getpid(), Start: uint64(n)} }

func (r *rig) prepare(c *client.Client, who bridge.Client, p hsm.Prompter) (message.Session, error) {
	return c.Prepare(context.Background(), client.PrepareRequest{Enrollment: "prod",
		Own: who == process.This(), Purpose: as(who)}, p)
}

func (r *rig) mustPrepare(p hsm.Prompter) message.Session {
	r.t.Helper()
	s, err := r.prepare(r.dial(), caller(1), p)
	check(r.t, err)
	return s
}

func (r *rig) http(s message.Session) *http.Client {
	r.t.Helper()
	c, err := clientOfSession(r.ep, s)
	check(r.t, err)
	r.t.Cleanup(c.CloseIdleConnections)
	return c
}

func clientOfSession(ep loopback.Endpoint, s message.Session) (*http.Client, error) {
	cert, err := tls.X509KeyPair(s.Certificate, s.Key)
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{cert}}
	cfg.RootCAs.AppendCertsFromPEM(ep.CAPEM)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}}, err
}

func (r *rig) get(s message.Session, path string) (int, string) {
	r.t.Helper()
	resp, err := r.http(s).Get(r.ep.URL("prod") + path)
	check(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(r.t, err)
	return resp.StatusCode, string(b)
}

// watch opens a watch. sees sends a line, which is to come over it.
func (r *rig) watch(s message.Session) (sees func(line string), rest io.Reader, end func()) {
	r.t.Helper()
	resp, err := r.http(s).Get(r.ep.URL("prod") + "/watch")
	check(r.t, err)
	end = func() { _ = resp.Body.Close() }
	r.t.Cleanup(end)
	lines := bufio.NewReader(resp.Body)
	return func(line string) {
		r.t.Helper()
		r.api.Send(line)
		if got, err := lines.ReadString('\n'); got != line+"\n" {
			r.t.Fatalf("the watch has %q, %v", got, err)
		}
	}, lines, end
}

func (r *rig) status() message.Status {
	r.t.Helper()
	s, err := r.dial().Status(context.Background())
	check(r.t, err)
	return s
}

// disconnected cuts the agent's connections to the API server.
func (r *rig) disconnected() {
	r.t.Helper()
	r.api.CloseClientConnections()
	poll.Until(r.t, "the connection is gone", func() bool { return r.status().Upstreams[0].Connections == 0 })
}

// wiretap sees what crosses the agent's socket. It listens where the agent
// would and passes on to the agent's real socket.
type wiretap struct {
	mu     sync.Mutex
	frames []wire.Frame
}

func (w *wiretap) proxy(t testing.TB, from, to string) {
	t.Helper()
	l, err := net.Listen("unix", from)
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			a, err := net.Dial("unix", to)
			if err != nil {
				t.Error(err)
				return
			}
			go w.relay(a, c)
			go w.relay(c, a)
		}
	}()
}

func (w *wiretap) relay(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for {
		f, err := wire.ReadFrame(from)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.frames = append(w.frames, wire.Frame{Kind: f.Kind, Payload: bytes.Clone(f.Payload)})
		w.mu.Unlock()
		if wire.WriteFrame(to, f.Kind, f.Payload) != nil {
			return
		}
	}
}

// only is the error of a call.
func only[T any](_ T, err error) error { return err }
