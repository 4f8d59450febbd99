//go:build linux && cgo

package adversary

import (
	"net/http"

	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// lockAttacks want something of a yes or a PIN to be left when the agent is locked.
var lockAttacks = []attack{
	{name: "after-a-lock", run: afterALock},
	{name: "tls-session", run: tlsSession},
}

func (s *stage) lock() {
	_, err := lab.Succeeded(s.Kubehsm(s.ctx, "agent", "lock"))
	s.Must(err)
}

// afterALock: a connection that is open, the certificate, the answer, and the way to
// the API server, after a lock and after the next unlock.
func afterALock(s *stage) {
	victim := s.victim()
	look := play.Order{Do: "keep", Method: "GET", Path: s.configmap("b")}
	if a := victim.did(look); a.Code != http.StatusOK {
		s.Fatalf("%+v", a)
	}
	own := victim.did(play.Order{Do: "plugin"}).Credential
	hoarder := s.player(suite.program).signIn() // has a certificate, and has not used it
	before := s.status().Signatures
	s.lock()
	more := play.Order{Do: "again", Method: "DELETE", Path: s.configmap("b")}
	if a := victim.do(more); a.Code != 0 && a.Code != http.StatusUnauthorized {
		s.Wrong("on an open connection, locked: %+v", a)
	}
	s.refused(victim.do(victim.deletes("b")), "locked", http.StatusUnauthorized)
	s.unlock()
	thief := s.player(suite.program).signIn() // the way to the API server stands again, for whoever has a session
	thief.did(play.Order{Do: "take", Credential: own})
	s.refused(thief.do(play.Order{Do: "send", Method: "GET", Path: s.configmap("b")}),
		"another program with the certificate from before the lock", http.StatusUnauthorized)
	s.refused(hoarder.do(play.Order{Do: "send", Method: "GET", Path: s.configmap("b")}),
		"a certificate from before the lock, used for the first time", http.StatusUnauthorized)
	victim.signIn()
	if after := s.status().Signatures; after != before+1 {
		s.Wrong("the way to the API server needed %d signatures after the lock, not 1: a TLS session was taken up again",
			after-before)
	}
	victim.screen.Type("\x0c")
	answer := victim.begin(victim.deletes("b"))
	waits := poll.Within(soon, func() bool { return len(s.status().Consents) > 0 || len(answer) > 0 })
	if !waits || len(answer) > 0 {
		s.Wrong("the answer from before the lock counts")
	}
	victim.end()
	s.nothingArrived("after a lock", 1)
	s.stands("b", "after a lock")
}

// tlsSession: a TLS session with the bridge is taken up again, without the key.
func tlsSession(s *stage) {
	thief := s.player(suite.program).signIn()
	a := thief.did(play.Order{Do: "resume", Method: "GET", Path: s.configmap("b")})
	if len(a.Done) > 0 || a.Code != http.StatusOK {
		s.Wrong("%+v", a)
	}
	s.nothingArrived("two connections", 2)
}
