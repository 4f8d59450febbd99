package bridge

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

func TestSameCertificateWhileTheAgentLives(t *testing.T) {
	clk := &clock{}
	s, err := NewSessions(clk.now)
	check(t, err)
	me := process.This()
	first, err := s.Issue("prod", me, nil)
	check(t, err)
	cert, err := tls.X509KeyPair(first.Certificate, first.Key)
	check(t, err)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	check(t, err)
	e := s.find(leaf)
	if e == nil {
		t.Fatal("no session")
	}
	// Its client, which runs the plugin once, shows it for days, and is served.
	clk.advance(100 * 24 * time.Hour)
	s.Sweep()
	if e.ended(clk.now()) || s.find(leaf) == nil || s.Active() != 1 || clk.now().After(leaf.NotAfter) ||
		!listed(s)[0].Until.IsZero() {
		t.Fatalf("a living client's session ends: %+v, certificate until %s", listed(s), leaf.NotAfter)
	}
	// Asked again, it is the same.
	again, err := s.Issue("prod", me, nil)
	check(t, err)
	if !bytes.Equal(again.Certificate, first.Certificate) || !again.Expires.After(first.Expires) {
		t.Fatal("a living client got another certificate: its connections would be cut")
	}
	// Others get their own.
	for _, o := range []struct {
		name string
		c    Client
	}{{"test", me}, {"prod", Client{PID: me.PID, Start: me.Start + 1}}} {
		other, err := s.Issue(o.name, o.c, nil)
		check(t, err)
		if bytes.Equal(other.Certificate, first.Certificate) {
			t.Fatalf("%v shares a certificate", o)
		}
	}
	// Near its end it is replaced, in good time.
	clk.advance(time.Until(leaf.NotAfter.Add(-SessionLife)) - clk.off)
	late, err := s.Issue("prod", me, nil)
	check(t, err)
	if bytes.Equal(late.Certificate, first.Certificate) {
		t.Fatal("an ending certificate was handed out")
	}
	s.Drop("prod")
	if s.find(leaf) != nil || len(listed(s)) != 1 {
		t.Fatalf("%+v", listed(s))
	}
}

// TestSweepForgetsDeadClients: a session ends with its process, and by time where
// the process cannot be watched.
// TestReady: the next client of an enrollment gets the session that was made ahead, which no other client has had.
// The key is overwritten with the sessions of the enrollment, or if no client comes.
func TestReady(t *testing.T) {
	for name, end := range map[string]func(*Sessions){
		"drop": func(s *Sessions) { s.Drop("prod") },
		"lock": func(s *Sessions) { s.Lock("") },
		"no client comes": func(s *Sessions) {
			time.Sleep(SessionLife + sessionGrace + time.Second)
			s.Sweep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := NewSessions(time.Now)
				check(t, err)
				first, err := s.Issue("prod", Client{PID: 1, Start: 1}, nil)
				check(t, err)
				synctest.Wait()
				ready := s.ready["prod"]
				if ready == nil || s.Active() != 1 {
					t.Fatalf("%+v, %d active", ready, s.Active())
				}
				test, err := s.Issue("test", Client{PID: 2, Start: 1}, nil)
				check(t, err)
				second, err := s.Issue("prod", Client{PID: 3, Start: 1}, nil)
				check(t, err)
				cert, err := tls.X509KeyPair(second.Certificate, second.Key)
				check(t, err)
				if !bytes.Equal(second.Certificate, ready.cert) || bytes.Equal(second.Certificate, first.Certificate) ||
					bytes.Equal(second.Certificate, test.Certificate) || s.find(cert.Leaf) != ready ||
					ready.client.PID != 3 || !second.New {
					t.Fatalf("not what was ready: %+v", ready)
				}
				synctest.Wait()
				next := s.ready["prod"]
				if next == nil || next == ready || s.find(parsed(t, next.cert)) != nil {
					t.Fatalf("ready is %+v", next)
				}
				end(s)
				if s.ready["prod"] != nil || bytes.ContainsFunc(next.key, func(r rune) bool { return r != 0 }) {
					t.Errorf("%+v is left", next)
				}
				if name != "no client comes" {
					s.prepare(ready, time.Now())
					if s.ready["prod"] != nil {
						t.Error("one was made for the client after one that has been forgotten")
					}
				}
			})
		})
	}
}

func parsed(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return cert
}

func TestSweepForgetsDeadClients(t *testing.T) {
	clk := &clock{}
	s, err := NewSessions(clk.now)
	check(t, err)
	me := process.This()
	gone, untold := Client{PID: me.PID, Start: me.Start + 1}, Client{PID: me.PID}
	for _, c := range []Client{me, gone, untold} {
		_, err := s.Issue("prod", c, nil)
		check(t, err)
	}
	of := func(c Client) *session { return s.byOwner[owner{"prod", c}] }
	left := func(want ...Client) {
		t.Helper()
		s.Sweep()
		if len(s.byOwner) != len(want) || slices.ContainsFunc(want, func(c Client) bool { return of(c) == nil }) {
			t.Fatalf("%v, want those of %v", s.Clients(), want)
		}
	}
	left(me, gone, untold)
	clk.advance(leftFor - time.Second)
	left(me, gone, untold)
	of(gone).met.Store(true)
	if !of(gone).ended(clk.now()) {
		t.Error("the session of a client that has connected outlives the client")
	}
	of(gone).met.Store(false)
	end := s.begin(of(gone))
	clk.advance(2 * time.Second)
	if !of(gone).ended(clk.now()) || of(untold).ended(clk.now()) {
		t.Error("new requests are taken for a process that has ended")
	}
	left(me, gone, untold) // a stream is open
	end()
	left(me, untold)
	clk.advance(SessionLife + sessionGrace)
	if !of(untold).ended(clk.now()) || of(me).ended(clk.now()) {
		t.Error("the wrong one ends by time")
	}
	left(me)
}

// TestClients: a program that started the plugin by a shell is a client, too.
func TestClients(t *testing.T) {
	s, err := NewSessions(time.Now)
	check(t, err)
	shell, program := Client{PID: 2, Start: 2}, Client{PID: 1, Start: 1}
	_, err = s.Issue("prod", shell, []Client{program})
	check(t, err)
	if all := s.Clients(); !slices.Equal(all, []Client{shell}) {
		t.Errorf("%v", all)
	}
	s.byOwner[owner{"prod", shell}].adopted.Store(&program)
	if all := s.Clients(); !slices.Equal(all, []Client{shell, program}) {
		t.Errorf("%v", all)
	}
}

func TestStatusIsInOrder(t *testing.T) {
	s, err := NewSessions(time.Now)
	check(t, err)
	for pid := 1; pid <= 20; pid++ {
		_, err := s.Issue("prod", Client{PID: pid}, nil)
		check(t, err)
	}
	for i, st := range listed(s) {
		if st.Client.PID != i+1 {
			t.Fatalf("session %d is of process %d", i, st.Client.PID)
		}
	}
}

// listed are the sessions that are not summed up.
func listed(s *Sessions) []SessionStatus {
	all, _ := s.Status()
	return all
}

// TestStatusOfManySessions: programs that run are listed, up to a number, and those that have
// ended are summed up.
func TestStatusOfManySessions(t *testing.T) {
	clk := &clock{}
	s, err := NewSessions(clk.now)
	check(t, err)
	me := process.This()
	if !me.Known() {
		t.Logf("this system does not tell when a process began: nothing is seen to end")
		return
	}
	gone := me
	gone.Start++
	const many = maxStatus + 10
	for i := range many {
		_, err := s.Issue(fmt.Sprint("mine-", i), me, nil)
		check(t, err)
		_, err = s.Issue(fmt.Sprint("ended-", i), gone, nil)
		check(t, err)
	}
	all, others := s.Status()
	if len(all) != maxStatus || others.More != many-maxStatus || others.Ended != many ||
		others.Until.After(clk.now().Add(leftFor)) || others.Until.Before(clk.now()) {
		t.Errorf("%d listed, others: %+v", len(all), others)
	}
	for _, st := range all {
		if st.Client != me || !st.Until.IsZero() {
			t.Errorf("listed: %+v", st)
		}
	}
}
