//go:build linux && cgo

package adversary

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// touchAttacks need a yes without a touch, where the key wants one for each use.
var touchAttacks = []attack{
	{name: "answers-itself", touch: true, run: answersItself},
	{name: "one-touch", touch: true, run: oneTouch},
	{name: "touch-after-a-lock", touch: true, run: touchAfterALock},
	{name: "touch-signs-past-the-bridge", touch: true, run: signsPast},
	{name: "touch-stolen-certificate", touch: true, run: stolenCertificate},
	{name: "touch-number-again", touch: true, run: numberAgain},
	{name: "statement-of-its-own", touch: true, run: ownStatement},
}

// untouched has nobody touch the card while f runs, and holds that it signs nothing.
func (s *stage) untouched(what string, f func()) {
	before := s.signed()
	s.touched.Store(false)
	defer s.touched.Store(true)
	f()
	if after := s.signed(); after != before {
		s.Wrong("%s: the card has signed %d times without a touch", what, after-before)
	}
}

// signed counts the signatures that the card has given out.
func (s *stage) signed() (n int) {
	for _, e := range s.card.Log() {
		if e.INS == 0x87 && e.Length > 0 && e.SW == 0x9000 {
			n++
		}
	}
	return n
}

// answersItself: the adversary says yes to its own question, in each way that the agent
// asks and by keys of its own.
func answersItself(s *stage) {
	thief := s.onTerminal(suite.program)
	voice := s.player(suite.program)
	voice.did(play.Order{Do: "attend", For: thief.id})
	voice.did(play.Order{Do: "attend"})
	thief.did(play.Order{Do: "claim", For: thief.id})
	s.untouched("its own yes", func() {
		answer := thief.begin(thief.deletes("b"))
		var a *play.Answer
		poll.Within(soon, func() bool {
			if _, err := s.Kubehsm(s.ctx, "version"); err != nil { // some time passes
				return true
			}
			select {
			case got := <-answer:
				a = &got
			default:
				thief.screen.Type("y\r")
			}
			return a != nil
		})
		if a == nil {
			s.Fatal("no answer without a touch")
		}
		s.refused(*a, "its own yes", http.StatusForbidden)
	})
	keys := s.onTerminal(suite.program).signIn()
	if a := keys.do(play.Order{Do: "type", Text: "y\n"}); a.Error != "" {
		s.Log("this kernel puts no keys into the queue:", a.Error)
	}
	s.untouched("keys of its own", func() {
		s.refused(keys.do(keys.deletes("b")), "keys of its own", http.StatusForbidden)
	})
	s.nothingArrived("its own yes", 0)
	s.stands("b", "its own yes")
}

// oneTouch: a touch for one program is none for another one.
func oneTouch(s *stage) {
	s.honest() // the way to the API server takes a signature of its own
	before := s.signed()
	victim := s.victim()
	if n := s.signed() - before; n != 1 {
		s.Wrong("%d signatures for one yes", n)
	}
	thief := s.player(suite.program)
	thief.did(play.Order{Do: "take", Credential: victim.did(play.Order{Do: "plugin"}).Credential})
	own := s.onTerminal(suite.program).signIn()
	s.untouched("another program's touch", func() {
		s.refused(thief.do(thief.deletes("b")), "a stolen certificate", http.StatusUnauthorized)
		s.refused(own.do(own.deletes("b")), "a session of its own", http.StatusForbidden)
	})
	s.nothingArrived("another program's touch", 0)
	s.stands("b", "another program's touch")
}

// touchAfterALock: the way to the API server is not taken up again without a touch.
func touchAfterALock(s *stage) {
	s.lock()
	s.untouched("after a lock", func() {
		res, err := s.KubehsmPIN(s.ctx, s.pin, "unlock", lab.Enrolled)
		s.Must(err)
		if res.Code == 0 {
			res, err = s.Kubectl(s.ctx, "get", "namespaces")
			s.Must(err)
		}
		if res.Code == 0 {
			s.Wrong("kubectl has signed in without a touch: %s", res)
		}
	})
	_, err := lab.Succeeded(s.Kubehsm(s.ctx, "agent", "stop")) // The agent keeps in mind what was refused.
	s.Must(err)
	s.unlock()
}

// ownStatement: records of consent that the token has not signed: one without a signature
// of any key, and one by a key of the adversary's, for which it makes a certificate.
func ownStatement(s *stage) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1),
		Subject: pkix.Name{CommonName: lab.User}}, &x509.Certificate{}, key.Public(), key)
	s.Must(err)
	own, err := hsm.Fingerprint(key.Public())
	s.Must(err)
	folder := filepath.Join(s.Home, "state", "certificates", own)
	s.Must(os.Mkdir(folder, 0o700))
	s.Must(os.WriteFile(filepath.Join(folder, lab.Enrolled+".pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	for name, hash := range map[string]string{"forged": s.enrollment()["keyHash"].(string), "self-made": own} {
		request := consent.Request{Verb: "delete", Resource: "namespaces", Name: name}
		text, err := consent.Statement{Enrollment: lab.Enrolled, PID: os.Getpid(), Command: "kubectl",
			Request: request}.Text()
		s.Must(err)
		signature, err := consent.Sign(key, text)
		s.Must(err)
		log, err := audit.Open(audit.Path(s.dirs()))
		s.Must(err)
		s.Must(errors.Join(log.Write(audit.Record{Event: audit.Consent, Outcome: audit.Granted,
			Reason: "touch", Enrollment: lab.Enrolled, Key: hash, Request: request.String(), Statement: text,
			Signature: signature}), log.Close()))
	}
	res, err := s.Kubehsm(s.ctx, "audit")
	s.Must(err)
	for _, name := range []string{`"forged"`, `"self-made"`} {
		shown := false
		for line := range strings.Lines(res.Stdout) {
			if !strings.Contains(line, name) {
				continue
			}
			shown = true
			if !strings.Contains(line, "WRONG SIGNATURE") && !strings.Contains(line, consent.ErrFormerKey.Error()) {
				s.Wrong("the audit log takes it for signed by the token: %s", line)
			}
		}
		if !shown {
			s.Fatalf("the record %s is not shown: %s", name, res)
		}
	}
}
