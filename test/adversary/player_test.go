//go:build linux && cgo

package adversary

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// player is a process of the adversary's program. Some play an honest program.
type player struct {
	s        *stage
	id       process.ID
	conn     *play.Conn
	listener *net.UnixListener
	socket   string
	screen   *term.Session // nil without a terminal
	end      func()
}

// player starts one without a terminal.
func (s *stage) player(program string) *player {
	return s.start(func(_ *player, socket string) (*term.Session, func()) {
		cmd := exec.Command(program, socket)
		cmd.Dir, cmd.Env = s.Dir, s.Env()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: 0}
		cmd.Stderr = os.Stderr
		s.Must(cmd.Start())
		return nil, func() {
			_ = cmd.Process.Kill() // The process may have ended.
			_ = cmd.Wait()         // A killed process ends with an error.
		}
	})
}

// onTerminal starts one on a terminal of its own, where its questions appear.
func (s *stage) onTerminal(program string) *player {
	return s.start(func(p *player, socket string) (*term.Session, func()) {
		t := s.terminal(program, socket)
		return t, func() {
			_ = syscall.Kill(p.id.PID, syscall.SIGKILL) // The process may have ended.
			poll.Within(soon, func() bool { return !p.id.Alive() })
		}
	})
}

func (s *stage) start(run func(p *player, socket string) (*term.Session, func())) *player {
	p := &player{s: s, socket: filepath.Join(s.Dir, "tmp", "play-"+unique())}
	var err error
	p.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	s.Must(err)
	p.screen, p.end = run(p, p.socket)
	p.end = sync.OnceFunc(p.end)
	p.accept()
	s.Cleanup(func() {
		_ = p.conn.Close() // Closing ends the program.
		_ = p.listener.Close()
		p.end()
	})
	return p
}

// accept takes the connection of a program that has just started.
func (p *player) accept() {
	p.s.Must(p.listener.SetDeadline(time.Now().Add(soon)))
	c, err := p.listener.Accept()
	p.s.Must(err)
	p.conn = play.NewConn(c)
	var a play.Answer
	p.s.Must(p.conn.Receive(&a))
	p.id = a.ID
}

// begin gives an order whose answer takes its time.
func (p *player) begin(o play.Order) <-chan play.Answer {
	if o.Enrollment == "" {
		o.Enrollment = lab.Enrolled
	}
	header := map[string][]string{"User-Agent": {p.s.mark}}
	maps.Copy(header, o.Header)
	o.Header = header
	p.s.Must(p.conn.Send(o))
	answer := make(chan play.Answer, 1)
	go func() {
		var a play.Answer
		if err := p.conn.Receive(&a); err != nil {
			a.Error = "the player: " + err.Error()
		}
		answer <- a
	}()
	return answer
}

// do gives an order and waits for the answer.
func (p *player) do(o play.Order) play.Answer {
	return p.await(p.begin(o), o.Do)
}

func (p *player) await(answer <-chan play.Answer, what string) play.Answer {
	select {
	case a := <-answer:
		return a
	case <-time.After(2 * soon):
		p.s.Fatalf("%s: no answer", what)
		return play.Answer{}
	}
}

// did is [player.do] of what must work.
func (p *player) did(o play.Order) play.Answer {
	a := p.do(o)
	if a.Error != "" {
		p.s.Fatalf("%s: %s", o.Do, a.Error)
	}
	return a
}

// signIn gets a session of its own, as every program may.
func (p *player) signIn() *player {
	p.did(play.Order{Do: "plugin"})
	return p
}

// deletes sends a deletion, which needs a yes.
func (p *player) deletes(name string) play.Order {
	return play.Order{Do: "send", Method: "DELETE", Path: p.s.configmap(name)}
}

// victim is an honest program on its own terminal, which has a yes: to the deletion of
// the configmap a.
func (s *stage) victim() *player {
	p := s.onTerminal(suite.program).signIn()
	o := p.deletes("a")
	o.Header = map[string][]string{"User-Agent": {"honest"}}
	answer := p.begin(o)
	if s.card == nil {
		if !s.shows(p.screen, "delete configmaps", `"a"`, strconv.Quote(s.space), question) {
			s.Fatalf("the honest deletion is not asked about:\n%s", p.screen.Screen())
		}
		p.screen.Type("y\r")
	}
	if a := p.await(answer, "the honest deletion"); a.Code != 200 {
		s.Fatalf("the honest deletion: %+v\n%s", a, p.screen.Screen())
	}
	return p
}

// refused holds that an answer is a refusal in words of the bridge's.
func (s *stage) refused(a play.Answer, what string, codes ...int) {
	for _, code := range codes {
		if a.Code == code && (strings.Contains(a.Body, `"kind":"Status"`) || strings.HasPrefix(a.Body, "kubehsm: ")) {
			return
		}
	}
	if a.Code == 0 && a.Error != "" && len(codes) == 0 {
		return
	}
	s.Wrong("%s: the answer is %d %.300s %s, not a refusal", what, a.Code, a.Body, a.Error)
}
