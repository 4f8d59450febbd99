//go:build linux && cgo

package adversary

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/poll"
)

// identityAttacks use another program's session or answer.
var identityAttacks = []attack{
	{name: "claims-another", run: claimsAnother},
	{name: "stolen-certificate", run: stolenCertificate},
	{name: "number-again", run: numberAgain},
	{name: "socket-in-flight", run: socketInFlight},
	{name: "relay", run: relay},
	{name: "copied-certificate-of-a-shell", run: shellsCertificate},
}

// claimsAnother: the agent is told that the session is for a program which has a yes, or for process 1.
func claimsAnother(s *stage) {
	victim, thief := s.victim(), s.player(suite.program)
	claim := func(what string, id process.ID) {
		thief.do(play.Order{Do: "claim", For: id})
		s.refused(thief.do(thief.deletes("b")), "the session of "+what, http.StatusForbidden)
	}
	claim("process 1", process.ID{PID: 1})
	claim("a program that runs", victim.id)
	claim("a program that runs, by its number alone", process.ID{PID: victim.id.PID})
	claim("another process of its number", process.ID{PID: victim.id.PID, Start: victim.id.Start + 1})
	claim("no process", process.ID{})
	victim.end()
	poll.Until(s.trial, "the program has ended", func() bool { return !victim.id.Alive() })
	claim("a program that has ended", victim.id)
	s.stands("b", "claims another program")
}

// stolenCertificate: the loopback certificate of a program that has a yes, while that
// one runs and later.
func stolenCertificate(s *stage) {
	victim, thief := s.victim(), s.player(suite.program)
	thief.did(play.Order{Do: "take", Credential: victim.did(play.Order{Do: "plugin"}).Credential})
	uses := func(when string) play.Answer {
		a := thief.do(thief.deletes("b"))
		s.refused(a, "the certificate of a program "+when, http.StatusUnauthorized)
		return a
	}
	if a := uses("that runs"); !strings.Contains(a.Body, "each program has to run `kubehsm credential` itself") {
		s.Wrong("it is not told why: %+v", a)
	}
	s.recorded("denial other-process")
	victim.end()
	ended := poll.Within(soon, func() bool {
		return strings.Contains(uses("that has ended").Body, "the session has ended") ||
			strings.Contains(uses("that has ended").Body, "unknown session")
	})
	if !ended {
		s.Wrong("the session of a program that has ended goes on")
	}
	s.nothingArrived("a stolen certificate", 0)
	s.stands("b", "a stolen certificate")
}

// again is another process of the number that id had.
func (s *stage) again(id process.ID) *player {
	for range 200 {
		s.Must(nextNumber(id.PID))
		p := s.player(suite.program)
		if p.id.PID == id.PID {
			return p
		}
		_ = p.conn.Close()
		p.end()
	}
	s.Fatalf("process %d comes not again", id.PID)
	return nil
}

// numberAgain: a process with the number of one that had a yes and has ended, and with
// its certificate.
func numberAgain(s *stage) {
	victim := s.victim()
	stolen := victim.did(play.Order{Do: "plugin"}).Credential
	victim.end()
	poll.Until(s.trial, "the number is free", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", victim.id.PID))
		return err != nil
	})
	thief := s.again(victim.id)
	s.refused(thief.do(play.Order{Do: "send", Credential: nil, Method: "GET", Path: s.configmap("b")}),
		"no certificate at all", http.StatusUnauthorized)
	thief.did(play.Order{Do: "take", Credential: stolen})
	s.refused(thief.do(thief.deletes("b")), "the certificate with the number", http.StatusUnauthorized)
	thief.signIn() // Every program may sign in.
	s.refused(thief.do(thief.deletes("b")), "a session of its own with the number", http.StatusForbidden)
	s.nothingArrived("the number again", 0)
	s.stands("b", "the number again")
}

// socketInFlight: while the bridge looks for the socket's owner no process has it.
func socketInFlight(s *stage) {
	victim, thief := s.victim(), s.player(suite.program)
	thief.did(play.Order{Do: "take", Credential: victim.did(play.Order{Do: "plugin"}).Credential})
	o := thief.deletes("b")
	o.Do = "flight"
	s.refused(thief.do(o), "a socket in flight", http.StatusUnauthorized)
	s.nothingArrived("a socket in flight", 0)
	s.stands("b", "a socket in flight")
}

// relay: a program's connection is another one's, which could read along and add
// requests of its own.
func relay(s *stage) {
	victim, relay := s.victim(), s.player(suite.program)
	at := relay.did(play.Order{Do: "relay"}).Body
	o := victim.deletes("b")
	o.Address = at
	s.refused(victim.do(o), "through a relay", http.StatusUnauthorized)
	s.nothingArrived("a relay", 0)
	s.stands("b", "a relay")
}

// shellsCertificate: kubectl's plugin is replaced by a script in the kubeconfig, which
// keeps what kubectl gets. The user's kubeconfig is the user's to write.
func shellsCertificate(s *stage) {
	stolen := filepath.Join(s.Dir, "stolen-"+unique())
	script := filepath.Join(s.Dir, "bin", "tee-"+unique())
	text := fmt.Sprintf("#!/bin/bash\nexec '%s' \"$@\" > >(tee '%s')\n", s.Plugin, stolen)
	s.Must(os.WriteFile(script, []byte(text), 0o700))
	config, err := os.ReadFile(s.Kubeconfig)
	s.Must(err)
	changed := strings.Replace(string(config), "command: "+s.Plugin, "command: "+script, 1)
	if changed == string(config) {
		s.Fatal("the kubeconfig does not run the program")
	}
	other := filepath.Join(s.Dir, "kubeconfig-"+unique())
	s.Must(os.WriteFile(other, []byte(changed), 0o600))
	t := s.terminal("/bin/sh", "-c",
		"KUBECONFIG="+other+" kubectl -n "+s.space+" delete configmap a; echo code $?; read x")
	t.WaitFor("delete configmaps", `"a"`, question)
	t.Type("y\r")
	t.WaitFor("code 0")
	f, err := os.Open(stolen)
	s.Must(err)
	b, err := io.ReadAll(f)
	s.Must(err)
	credential, err := play.FromPlugin(b)
	s.Must(err)
	thief := s.player(suite.program)
	thief.did(play.Order{Do: "take", Credential: credential})
	s.refused(thief.do(thief.deletes("b")), "kubectl's certificate", http.StatusUnauthorized)
	s.nothingArrived("kubectl's certificate", 0)
	s.stands("b", "kubectl's certificate")
	t.Type("\r")
	t.Exit()
}
