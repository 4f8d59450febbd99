//go:build linux

package host

import (
	"bufio"
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

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/need"
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

// asksFor gets a session for a process.
func (p *otherProgram) asksFor(client process.ID) done {
	p.r.t.Helper()
	return p.does(order{For: client})
}

// sends sends a request with the session that the program has.
func (p *otherProgram) sends(method, path string) done {
	p.r.t.Helper()
	return p.does(order{Method: method, Path: path})
}

// TestOneTouchIsOnePrograms: what a person allowed one program no other one gets:
// not by naming it, while it runs or after its end, nor with its certificate.
func TestOneTouchIsOnePrograms(t *testing.T) {
	r, person := unlocked(t, hsmtest.FakeOptions{})
	kubectl, thief, late := r.program(`exec "$0" client`), r.program(`exec "$0" client`), r.program(`exec "$0" client`)
	s := kubectl.asksFor(kubectl.id)
	if s.Error != "" {
		t.Fatal(s.Error)
	}
	r.unattended()
	if d := kubectl.sends("DELETE", pods+"/a"); d.Code != served || person.asked() != 1 {
		t.Fatalf("%+v, %d questions", d, person.asked())
	}
	refusedTo := func(when string, thief *otherProgram) {
		t.Helper()
		if d := thief.asksFor(kubectl.id); !strings.Contains(d.Error, "no session for another program") ||
			len(d.Session.Key) > 0 {
			t.Errorf("%s: the thief that names it gets %+v", when, d)
		}
		d := thief.does(order{Session: &s.Session, Method: "DELETE", Path: pods + "/b"})
		if d.Code != http.StatusUnauthorized || !strings.Contains(d.Body, `"kind":"Status"`) {
			t.Errorf("%s: the thief with its certificate gets %+v", when, d)
		}
		if d := thief.asksFor(thief.id); d.Error != "" {
			t.Error(d.Error) // a session of the thief's own is allowed; its use is asked about below
		}
	}
	refusedTo("while it runs", thief)
	asked, shown := r.recordsOf(audit.Session), r.recordsOf(audit.Denial)
	whom := audit.Process{PID: thief.id.PID, Command: consent.CommandOf(thief.id.PID)} // the thief claims "kubectl"
	if a := asked[2]; a.Outcome != audit.Refused || a.Error != "not-client" || *a.Client != whom ||
		*asked[3].Client != whom {
		t.Errorf("on record is %+v", a)
	}
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
	shell := slices.Collect(plugin.id.Ancestors())[0]
	for _, claim := range []process.ID{process.This(), shell} {
		d := plugin.asksFor(claim)
		if d.Error != "" {
			t.Fatal(d.Error)
		}
		if claim == shell {
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
	c.Remember(shell, nil, time.Now())
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
	c.Remember(shell, nil, time.Now())
	p.end()
	if _, ok := c.Recall(shell, time.Now()); ok {
		t.Error("a process that has ended has the answer")
	}
	me := process.This()
	before := consents.Scope{Enrollment: "prod", Client: process.ID{PID: me.PID, Start: me.Start + 1},
		Class: consents.Change}
	c.Remember(before, nil, time.Now())
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

// TestIdentify: what the system tells counts, and not what a plugin says.
func TestIdentify(t *testing.T) {
	me := process.This()
	sleep, end := running(t)
	parent := process.Parent()
	for _, c := range []struct {
		name            string
		plugin, claimed process.ID
		want            process.ID
		err             error
	}{
		{"itself", me, me, me, nil},
		{"its parent", me, parent, parent, nil},
		{"its parent, whose start it does not know", me, process.ID{PID: parent.PID}, parent, nil},
		{"through another", sleep, parent, parent, nil},
		{"a child", me, sleep, process.ID{}, message.ErrNotClient},
		{"another of the number", me, process.ID{PID: parent.PID, Start: parent.Start + 1}, process.ID{}, message.ErrNotClient},
		{"nothing", me, process.ID{}, process.ID{}, message.ErrNotClient},
		{"a plugin that has ended", process.ID{PID: sleep.PID}, me, process.ID{}, message.ErrNotClient},
		{"not told here", process.ID{}, me, process.ID{PID: me.PID}, nil},
	} {
		got, kin, err := identify(c.plugin, c.claimed)
		if got != c.want || !errors.Is(err, c.err) || err != nil && hint.Of(err) == "" {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if c.want == me && kin != nil && kin()[0] != parent {
			t.Errorf("%s: started by %v", c.name, kin())
		}
	}
	_, before, err := identify(sleep, sleep)
	check(t, err)
	_, after, err := identify(sleep, sleep)
	check(t, err)
	if all := before(); len(all) == 0 || all[0] != me {
		t.Errorf("started by %v", all)
	}
	end()
	if len(before()) == 0 || len(after()) != 0 {
		t.Errorf("when it has ended: %v, and %v where nobody asked before", before(), after())
	}
	if _, _, err := identify(sleep, me); !errors.Is(err, message.ErrNotClient) {
		t.Errorf("a plugin that has ended gets a session: %v", err)
	}
}

// TestIdentifyInNamespace: a plugin in a pid namespace of its own, a container's say,
// claims processes by the numbers that they have there.
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
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	if line != "1\n" {
		t.Fatalf("the plugin's parent is %q", line)
	}
	client := process.Of(c.Process.Pid)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", client.PID, client.PID))
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	check(t, err)
	plugin := process.Of(pid)
	for _, o := range []struct{ plugin, claimed, want process.ID }{
		{plugin, process.ID{PID: 1, Start: client.Start}, client},
		{plugin, process.ID{PID: 1}, client}, // and not the process 1 out here
		{plugin, client, client},
		{client, process.ID{}, process.This()}, // the client's parent, this process, is outside its namespace
	} {
		if got, _, err := identify(o.plugin, o.claimed); err != nil || got != o.want {
			t.Errorf("%v claims %v: %v, %v", o.plugin, o.claimed, got, err)
		}
	}
	other, _ := running(t)
	for _, claimed := range []process.ID{other, {PID: 3, Start: client.Start}, {PID: os.Getpid(), Start: 1}} {
		if got, _, err := identify(plugin, claimed); !errors.Is(err, message.ErrNotClient) {
			t.Errorf("claims %v: %v", claimed, got)
		}
	}
}
