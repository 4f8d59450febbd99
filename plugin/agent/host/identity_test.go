//go:build linux

package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// otherProgram is another process that asks the agent for sessions and uses them.
type otherProgram struct {
	r   *rig
	id  process.ID
	in  io.WriteCloser
	out *bufio.Reader
	end func()
}

// program starts one by the command line, in which $0 is this program.
func (r *rig) program(script string) *otherProgram {
	r.t.Helper()
	c := exec.Command("/bin/sh", "-c", script, os.Args[0])
	ownSession(c)
	c.Env = append(os.Environ(), home.EnvHome+"="+r.dir)
	in, err := c.StdinPipe()
	check(r.t, err)
	out, err := c.StdoutPipe()
	check(r.t, err)
	check(r.t, c.Start())
	p := &otherProgram{r: r, in: in, out: bufio.NewReader(out)}
	p.end = func() { _ = in.Close(); _ = c.Wait() }
	r.t.Cleanup(p.end)
	p.id = p.answer().ID
	return p
}

func (p *otherProgram) answer() (d done) {
	p.r.t.Helper()
	line, err := p.out.ReadBytes('\n')
	check(p.r.t, err)
	check(p.r.t, json.Unmarshal(line, &d))
	return d
}

func (p *otherProgram) does(o order) done {
	p.r.t.Helper()
	check(p.r.t, json.NewEncoder(p.in).Encode(o))
	return p.answer()
}

// asks gets a session for the program, or for the one that has started it.
func (p *otherProgram) asks(own bool) done {
	p.r.t.Helper()
	return p.does(order{Asks: true, Own: own})
}

// sends sends a request with the session that the program has.
func (p *otherProgram) sends(method, path string) done {
	p.r.t.Helper()
	return p.does(order{Method: method, Path: path})
}

// TestOneTouchIsOnePrograms: what a person allowed one program no other one gets
// with its certificate, while it runs or after its end.
func TestOneTouchIsOnePrograms(t *testing.T) {
	r, person := unlocked(t, hsmtest.FakeOptions{})
	kubectl, thief, late := r.program(`exec "$0" client`), r.program(`exec "$0" client`), r.program(`exec "$0" client`)
	s := kubectl.asks(true)
	if s.Error != "" {
		t.Fatal(s.Error)
	}
	r.unattended()
	if d := kubectl.sends("DELETE", pods+"/a"); d.Code != served || person.asked() != 1 {
		t.Fatalf("%+v, %d questions", d, person.asked())
	}
	refusedTo := func(when string, thief *otherProgram) {
		t.Helper()
		d := thief.does(order{Session: &s.Session, Method: "DELETE", Path: pods + "/b"})
		if d.Code != http.StatusUnauthorized || !strings.Contains(d.Body, `"kind":"Status"`) {
			t.Errorf("%s: the thief with its certificate gets %+v", when, d)
		}
		if d := thief.asks(true); d.Error != "" {
			t.Error(d.Error) // a session of the thief's own is allowed; its use is asked about below
		}
	}
	refusedTo("while it runs", thief)
	shown := r.recordsOf(audit.Denial)
	whom := audit.Process{PID: thief.id.PID, Command: consent.CommandOf(thief.id.PID)} // the thief claims "kubectl"
	if len(shown) != 1 || shown[0].Reason != bridge.DeniedProcess || shown[0].Client == nil || *shown[0].Client != whom {
		t.Errorf("on record is %+v", shown)
	}
	kubectl.end()
	refusedTo("after its end", late)
	person.answer = always(false, nil)
	r.unattended()
	if d := late.sends("DELETE", pods+"/b"); d.Code != http.StatusForbidden || person.asked() != 2 {
		t.Errorf("%+v, %d questions", d, person.asked())
	}
	if q := person.questions[1]; !strings.Contains(q.Detail, fmt.Sprintf("(process %d)", late.id.PID)) {
		t.Errorf("the question is about %q", q.Detail)
	}
	for _, path := range r.api.Arrivals() {
		if strings.HasSuffix(path, "/b") {
			t.Errorf("%s arrived", path)
		}
	}
}

// TestPluginInAShell: some clients start the plugin by "sh -c". The shell has gone
// when they connect.
func TestPluginInAShell(t *testing.T) {
	r, person := unlocked(t, hsmtest.FakeOptions{})
	plugin := r.program(`"$0" client; true`)
	d := plugin.asks(false)
	if d.Error != "" {
		t.Fatal(d.Error)
	}
	for _, runs := range []bool{true, false} {
		if !runs {
			plugin.end()
		}
		r.unattended()
		if code, body := r.send(t.Context(), r.http(d.Session), "POST", pods); code != served {
			t.Errorf("%d %s", code, body)
		}
	}
	if person.asked() != 1 { // about one program: this one
		t.Errorf("%d questions", person.asked())
	}
}

// TestChildWithTheCertificate: a child that uses what its parent got is served, and
// has answers of its own.
func TestChildWithTheCertificate(t *testing.T) {
	r, person := unlocked(t, hsmtest.FakeOptions{})
	s, err := r.prepare(r.dial(), process.This(), nil)
	check(t, err)
	r.unattended()
	if code, body := r.send(t.Context(), r.http(s), "POST", pods); code != served || person.asked() != 1 {
		t.Fatalf("%d %s, %d questions", code, body, person.asked())
	}
	child := r.program(`exec "$0" client`)
	if d := child.does(order{Session: &s, Method: "POST", Path: pods}); d.Code != served || person.asked() != 2 {
		t.Errorf("%+v, %d questions", d, person.asked())
	}
	if q := person.questions[1]; !strings.Contains(q.Detail, fmt.Sprintf("(process %d)", child.id.PID)) {
		t.Errorf("the question is about %q", q.Detail)
	}
}

// TestAnswerEndsWithItsProgram: also where the process runs on, with another program.
func TestAnswerEndsWithItsProgram(t *testing.T) {
	c := consents.New()
	r := &rig{t: t, dir: t.TempDir()}
	p := r.program(`"$0" client; exec "$0" client`)
	shell := consents.Scope{Enrollment: "prod", Client: slices.Collect(p.id.Ancestors())[0], Class: consents.Change}
	c.Remember(shell, consents.ProgramOf(shell.Client), nil, time.Now())
	if _, ok := c.Recall(shell, time.Now()); !ok {
		t.Fatal("it is not remembered")
	}
	_, err := io.WriteString(p.in, "no order\n") // the first program ends at a line that is no order
	check(t, err)
	if d := p.answer(); d.ID != shell.Client {
		t.Fatalf("%v, not the same process: %v", d.ID, shell.Client)
	}
	if _, ok := c.Recall(shell, time.Now()); ok {
		t.Error("another program in the process has the answer")
	}
	c.Remember(shell, consents.ProgramOf(shell.Client), nil, time.Now())
	p.end()
	if _, ok := c.Recall(shell, time.Now()); ok {
		t.Error("a process that has ended has the answer")
	}
	me := process.This()
	before := consents.Scope{Enrollment: "prod", Client: process.ID{PID: me.PID, Start: me.Start + 1},
		Class: consents.Change}
	c.Remember(before, consents.ProgramOf(before.Client), nil, time.Now())
	if _, ok := c.Recall(before, time.Now()); ok {
		t.Error("a process that has ended, and whose number another has, has the answer")
	}
}

// TestAnswerForAConnection: where the system does not tell whose a connection is, an
// answer is for that one alone.
func TestAnswerForAConnection(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.policy(consent.Policy{Mode: consent.Writes})
	untold := func(_, _ netip.AddrPort, _ process.ID, _ []process.ID) (process.ID, bool, error) {
		return process.ID{}, false, nil
	}
	r.serve(Options{identify: believe, whose: untold})
	for _, client := range []process.ID{process.This(), {}} {
		s, one := r.sessionOf(client)
		two, person := r.http(s), &asker{answer: always(true, nil)}
		leave := r.attended(process.ID{}, person)
		r.unattended()
		for i, c := range []*http.Client{one, one, two, one, two} {
			if code, body := r.send(t.Context(), c, "POST", pods); code != served || person.asked() != []int{1, 1, 2, 2, 2}[i] {
				t.Errorf("%v, request %d: %d %s, %d questions", client, i, code, body, person.asked())
			}
		}
		leave()
	}
}

// TestIdentify: a session is for the program that asks or for its parent, whom the kernel tells, and
// of those that have started this one the next three may use it.
func TestIdentify(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "sh -c 'sh -c \"sh -c \\\"echo \\\\$\\\\$; read x; true\\\"; true\"; true'; true")
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	check(t, err)
	plugin := process.Of(pid)
	above := slices.Collect(plugin.Ancestors())
	client, kin, err := identify(plugin, false, hsm.Purpose{})
	if err != nil || client != above[0] || !slices.Equal(kin, above[1:4]) || above[3] != process.This() && above[2] == process.This() {
		t.Errorf("%v, %v, %v of %v", client, kin, err, above)
	}
	if client, kin, err := identify(plugin, true, hsm.Purpose{}); err != nil || client != plugin || kin != nil {
		t.Errorf("itself: %v, %v, %v", client, kin, err)
	}
	for name, plugin := range map[string]process.ID{
		"one that has ended":          {PID: plugin.PID, Start: plugin.Start - 1},
		"one that the kernel hides":   {},
		"one that nobody has started": process.Of(1),
	} {
		if client, _, err := identify(plugin, false, hsm.Purpose{}); !errors.Is(err, message.ErrNotClient) || hint.Of(err) == "" {
			t.Errorf("%s: %v, %v", name, client, err)
		}
	}
}

// TestIdentifyWithoutDescriptors: that the agent cannot look is no attack.
func TestIdentifyWithoutDescriptors(t *testing.T) {
	me := process.This()
	var limit, none unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none = limit
	none.Cur = 0
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	client, _, err := identify(me, false, hsm.Purpose{})
	alive, ended := me.Alive(), process.ID{PID: me.PID, Start: me.Start + 1}.Alive()
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if err == nil || errors.Is(err, message.ErrNotClient) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v, %v", client, err)
	}
	if !alive || !ended {
		t.Error("a process of which nothing could be read counts as ended")
	}
}

// TestIdentifyInNamespace: a plugin in a pid namespace of its own, a container's say, has the
// parent that it has out here.
func TestIdentifyInNamespace(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", `sh -c 'echo $PPID; read x'; true`)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	if err := c.Start(); err != nil {
		need.Missing(t, "pid namespaces: "+err.Error())
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "1\n" {
		t.Fatalf("the plugin's parent is %q, %v", line, err)
	}
	client := process.Of(c.Process.Pid)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", client.PID, client.PID))
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	check(t, err)
	if got, _, err := identify(process.Of(pid), false, hsm.Purpose{}); os.Geteuid() == 0 && (err != nil || got != client) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAnswerForAnotherProgram: a process that runs another program when the question is answered gets nothing.
func TestAnswerForAnotherProgram(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "read x; exec sleep 600")
	ownSession(c)
	in, err := c.StdinPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // the process may have ended
		_ = c.Wait()         // a killed process ends with an error
	})
	id := process.Of(c.Process.Pid)
	before := consents.ProgramOf(id)
	p := &asker{}
	p.answer = func(context.Context, ask.Question) (bool, error) {
		_, err := io.WriteString(in, "go\n")
		poll.Until(t, "the process runs another program", func() bool {
			return !consents.SameProgram(before, consents.ProgramOf(id))
		})
		return true, err
	}
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Always})
	_, h := r.sessionOf(id)
	r.attended(id, p)
	if code, body := r.send(t.Context(), h, "DELETE", pods+"/a"); code != http.StatusForbidden || p.asked() != 1 {
		t.Errorf("after %d questions: %d %s", p.asked(), code, body)
	}
}
