//go:build linux && cgo

package adversary

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// processAttacks play with what a process is.
var processAttacks = []attack{
	{name: "another-program-in-the-process", run: anotherProgram},
	{name: "child", run: child},
	{name: "spy", run: spy},
	{name: "signs-past-the-bridge", run: signsPast},
}

// asked holds that a request on p's terminal is asked about, and says no; the texts are
// in the question.
func (p *player) asked(o play.Order, what string, on *player, texts ...string) {
	answer := p.begin(o)
	if !p.s.shows(on.screen, append(texts, question)...) {
		p.s.Wrong("%s: it was not asked about with %q; the screen:\n%s", what, texts, on.screen.Screen())
	}
	on.screen.Type("n\r")
	p.s.refused(p.await(answer, what), what, http.StatusForbidden)
	p.s.nothingArrived(what, 0)
}

// anotherProgram: a process that has a yes goes on with another program's file.
func anotherProgram(s *stage) {
	victim := s.victim()
	s.Must(victim.conn.Send(play.Order{Do: "exec", Path: suite.other}))
	victim.accept()
	victim.screen.Type("\x0c") // the screen's end may have the old question
	victim.asked(victim.deletes("b"), "another program in the process", victim,
		"delete configmaps", `"b"`)
	s.stands("b", "another program in the process")
}

// child: a child of a program that has a yes, with the program's certificate.
func child(s *stage) {
	victim := s.victim()
	s.Must(victim.conn.Send(play.Order{Do: "child", Path: filepath.Join(s.Dir, "tmp", "credential-"+unique())}))
	var a play.Answer
	s.Must(victim.conn.Receive(&a))
	if a.Error != "" {
		s.Fatal(a.Error)
	}
	young := &player{s: s, listener: victim.listener, socket: victim.socket, screen: victim.screen}
	young.accept()
	if young.id.PID == victim.id.PID {
		s.Fatal("it is no child")
	}
	young.asked(young.deletes("b"), "a child", victim, strconv.Itoa(young.id.PID),
		"delete configmaps", `"b"`)
	_ = young.conn.Close() // Closing ends the program.
	s.stands("b", "a child")
}

// spy: the memory and the descriptors of the agent and of what holds the token.
func spy(s *stage) {
	thief := s.player(suite.program)
	st := s.status()
	targets := map[string]int{"the agent": st.PID}
	for _, w := range st.Workers {
		targets["a worker"] = w.PID
	}
	if len(targets) != 2 {
		s.Fatalf("%+v", st.Workers)
	}
	for who, pid := range targets {
		if a := thief.did(play.Order{Do: "spy", For: process.ID{PID: pid}}); len(a.Done) > 0 {
			s.Wrong("of %s, process %d, it gets at: %s", who, pid, strings.Join(a.Done, ", "))
		}
	}
	// It knows how to: the same of a process that is not protected.
	if a := thief.did(play.Order{Do: "spy", For: s.player(suite.program).id}); len(a.Done) < 4 {
		s.Log("this kernel keeps programs of one user apart: only", a.Done)
	}
}

// signsPast: the agent's own signatures for the external signer, with which a
// connection past the bridge is made.
func signsPast(s *stage) {
	thief := s.player(suite.program)
	uri := s.enrollment()["key"].(string)
	if a := thief.do(play.Order{Do: "sign", Path: uri, Text: "a handshake"}); len(a.Done) > 0 {
		s.Wrong("the key of an enrollment that asks signs for anybody: %v", a.Done)
	}
}
