package bridge

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

func TestSameCertificateWhileTheAgentLives(t *testing.T) {
	clk := &clock{}
	s, err := NewSessions(clk.now)
	check(t, err)
	me := process.This()
	first, err := s.Issue("prod", me)
	check(t, err)
	cert, err := tls.X509KeyPair(first.Certificate, first.Key)
	check(t, err)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	check(t, err)
	e := s.find(leaf)
	if e == nil || leaf.NotAfter.Sub(clk.now()) > 12*time.Hour+time.Minute {
		t.Fatal(leaf.NotAfter)
	}
	// Asked again after it expired, it is the same, and valid again.
	clk.advance(SessionLife + sessionGrace + time.Second)
	if !e.expired(clk.now()) || s.Active() != 0 {
		t.Fatal("still valid")
	}
	s.Sweep()
	again, err := s.Issue("prod", me)
	check(t, err)
	if !bytes.Equal(again.Certificate, first.Certificate) || !again.Expires.After(first.Expires) || e.expired(clk.now()) {
		t.Fatal("a living client got another certificate: its connections would be cut")
	}
	// Others get their own.
	for _, o := range []struct {
		name string
		c    Client
	}{{"test", me}, {"prod", Client{PID: me.PID, Start: me.Start + 1}}} {
		other, err := s.Issue(o.name, o.c)
		check(t, err)
		if bytes.Equal(other.Certificate, first.Certificate) {
			t.Fatalf("%v shares a certificate", o)
		}
	}
	// Near its end it is replaced, in good time.
	clk.advance(certificateLife - SessionLife)
	late, err := s.Issue("prod", me)
	check(t, err)
	if bytes.Equal(late.Certificate, first.Certificate) {
		t.Fatal("an ending certificate was handed out")
	}
	s.Drop("prod")
	if s.find(leaf) != nil || len(s.Status()) != 1 {
		t.Fatalf("%+v", s.Status())
	}
}

func TestSweepForgetsDeadClients(t *testing.T) {
	clk := &clock{}
	s, err := NewSessions(clk.now)
	check(t, err)
	me := process.This()
	for _, c := range []Client{me, {PID: me.PID, Start: me.Start + 1}, {}} {
		_, err := s.Issue("prod", c)
		check(t, err)
	}
	s.Sweep()
	if n := len(s.Status()); n != 3 {
		t.Fatalf("%d left while they may be used", n)
	}
	clk.advance(leftFor / 2)
	dead := s.byOwner[owner{"prod", Client{PID: me.PID, Start: me.Start + 1}}]
	end := s.begin(dead)
	clk.advance(leftFor)
	s.Sweep()
	if n := len(s.Status()); n != 3 {
		t.Fatalf("%d left during a request of one whose plugin has ended", n)
	}
	end()
	s.Sweep()
	if n := len(s.Status()); n != 3 {
		t.Fatalf("%d left right after that request", n)
	}
	clk.advance(leftFor + time.Second)
	s.Sweep()
	if st := s.Status(); len(st) != 2 || slices.ContainsFunc(st, func(st SessionStatus) bool { return st.Client == dead.client }) {
		t.Fatalf("the session of a process that has ended is kept: %+v", st)
	}
	clk.advance(time.Hour)
	s.Sweep()
	if st := s.Status(); len(st) != 1 || st[0].Client != me {
		t.Fatalf("%+v", st)
	}
}

func TestStatusIsInOrder(t *testing.T) {
	s, err := NewSessions(time.Now)
	check(t, err)
	for pid := 1; pid <= 20; pid++ {
		_, err := s.Issue("prod", Client{PID: pid})
		check(t, err)
	}
	for i, st := range s.Status() {
		if st.Client.PID != i+1 {
			t.Fatalf("session %d is of process %d", i, st.Client.PID)
		}
	}
	for pid := 21; pid <= 2*maxStatus; pid++ {
		_, err := s.Issue("prod", Client{PID: pid})
		check(t, err)
	}
	if all := s.Status(); len(all) != maxStatus || all[len(all)-1].Client.PID != 2*maxStatus {
		t.Fatalf("of many, %d are listed, the last of process %d", len(all), all[len(all)-1].Client.PID)
	}
}
