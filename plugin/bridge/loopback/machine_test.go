package loopback

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// on is the folder as another machine sees it, at another time.
func on(t *testing.T, state, id string, at time.Time) folder {
	t.Helper()
	return folder{state, machineOf([]byte(id), 1000), at}
}

// shows is the endpoint and the certificate of the bridge there.
func shows(t *testing.T, f folder) (Endpoint, *x509.Certificate) {
	t.Helper()
	ep, err := f.setup()
	check(t, err)
	cert, err := f.certificate()
	check(t, err)
	return ep, cert.Leaf
}

// TestCopiedKeyIsUseless: what one machine has written passes for its bridge on no other
// machine, and for no other user, whatever of it is put where.
func TestCopiedKeyIsUseless(t *testing.T) {
	d, now := testDirs(t), time.Now()
	check(t, d.Prepare())
	mine := on(t, d.State, "mine", now)
	ep, leaf := shows(t, mine)
	check(t, verify(leaf, ep.CAPEM, "127.0.0.1", now))
	label, err := mine.machine.label()
	check(t, err)
	stolen, err := mine.read(label)
	check(t, err)
	for name, m := range map[string]machine{"another machine": machineOf([]byte("theirs"), 1000),
		"another user": machineOf([]byte("mine"), 1001), "no id": machineOf(nil, 1000)} {
		thief := folder{d.State, m, now}
		if _, err := stolen.Identities[0].pair(m); err == nil {
			t.Errorf("%s: the key can be used", name)
		}
		_, theirs := shows(t, thief)
		if err := verify(theirs, ep.CAPEM, "127.0.0.1", now); err == nil {
			t.Errorf("%s: it passes for the bridge", name)
		}
		check(t, thief.write(stolen)) // under its own name
		if _, err := thief.certificate(); err == nil || !strings.Contains(hint.Of(err), "kubeconfig set") {
			t.Errorf("%s: %v", name, err)
		}
	}
	swapped := stolen.Identities[0]
	other, err := mine.machine.newIdentity()
	check(t, err)
	swapped.Certificate = other.Certificate
	if _, err := swapped.pair(mine.machine); err == nil {
		t.Error("the key is taken for another certificate's")
	}
	text, err := json.Marshal(stolen)
	check(t, err)
	if bytes.Contains(text, []byte("mine")) || label == "mine" || label == unbound {
		t.Errorf("the machine's id: %s, %s", label, text)
	}
}

// TestUnboundMachine: where the system identifies no machine, an identity is made all the
// same, and its key is good wherever none is identified.
func TestUnboundMachine(t *testing.T) {
	d := testDirs(t)
	check(t, d.Prepare())
	f := folder{d.State, machineOf(nil, 1000), time.Now()}
	ep, leaf := shows(t, f)
	again, _ := shows(t, folder{d.State, machineOf(nil, 0), time.Now()})
	if ep.Bound || !bytes.Equal(ep.CAPEM, again.CAPEM) {
		t.Errorf("%+v, %+v", ep, again)
	}
	if err := verify(leaf, ep.CAPEM, "::1", time.Now()); err != nil {
		t.Error(err)
	}
}

// TestMachinesShareAFolder: each has an identity, the port is one, and an entry that is
// written on any of them knows them all.
func TestMachinesShareAFolder(t *testing.T) {
	d, now := testDirs(t), time.Now()
	check(t, d.Prepare())
	a, b := on(t, d.State, "a", now), on(t, d.State, "b", now)
	before, _ := shows(t, a)
	atB, leafB := shows(t, b)
	atA, leafA := shows(t, a)
	if atA.Port != atB.Port || !bytes.Equal(atA.CAPEM, atB.CAPEM) {
		t.Fatalf("%+v, %+v", atA, atB)
	}
	for _, leaf := range []*x509.Certificate{leafA, leafB} {
		if err := verify(leaf, atA.CAPEM, "127.0.0.1", now); err != nil {
			t.Error(err)
		}
	}
	if got := atB.Trust(before.CAPEM); got.Shown || got.Stray {
		t.Errorf("an entry of a's, at b: %+v", got)
	}
	if got := atB.Trust(atA.CAPEM); got != (Trust{Shown: true, Next: true}) {
		t.Errorf("an entry of both, at b: %+v", got)
	}
	later := on(t, d.State, "a", now.Add(identityLife+time.Hour))
	check(t, later.maintain(false))
	labelB, err := b.machine.label()
	check(t, err)
	if _, err := later.read(labelB); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("b's identity has ended, and is there: %v", err)
	}
	if _, leaf := shows(t, a); leaf.Equal(leafA) {
		t.Error("the bridge shows what has ended")
	}
}

// TestNextCertificate: the next certificate is made half a life ahead, and shown when the
// first is about to end; an entry that was written once meanwhile knows both.
func TestNextCertificate(t *testing.T) {
	d, start := testDirs(t), time.Now()
	check(t, d.Prepare())
	at := func(after time.Duration) folder { return on(t, d.State, "a", start.Add(after)) }
	first, leaf := shows(t, at(0))
	check(t, at(nextBefore-time.Hour).maintain(false))
	if ep, _ := shows(t, at(0)); ep.HasNext() || !bytes.Equal(ep.CAPEM, first.CAPEM) {
		t.Fatal("the next one was made early")
	}
	middle := at(nextBefore + time.Hour)
	check(t, middle.maintain(false))
	both, still := shows(t, middle)
	if !both.HasNext() || !still.Equal(leaf) || len(certificates(both.CAPEM)) != 2 {
		t.Fatalf("%+v", both)
	}
	check(t, middle.maintain(false))
	if ep, _ := shows(t, middle); !bytes.Equal(ep.CAPEM, both.CAPEM) {
		t.Error("another one was made")
	}
	if got := both.Trust(first.CAPEM); !got.Shown || got.Next {
		t.Errorf("an old entry: %+v", got)
	}
	end := at(identityLife - time.Hour)
	check(t, end.maintain(false))
	after, next := shows(t, end)
	if got := after.Trust(both.CAPEM); next.Equal(leaf) || after.Trust(first.CAPEM).Shown || !got.Shown || got.Stray {
		t.Errorf("%+v, %+v", after, got)
	}
	if err := verify(next, both.CAPEM, "localhost", end.now); err != nil {
		t.Error(err)
	}
}

// TestFormerKey: the key that an older program left open is sealed, and goes on being
// shown; it is shown no more when every entry knows the next one.
func TestFormerKey(t *testing.T) {
	d, now := testDirs(t), time.Now()
	check(t, d.Prepare())
	f := on(t, d.State, "a", now)
	leaf := former(t, f)
	before, shown := shows(t, f)
	if !shown.Equal(leaf) || !before.Former || !before.Open || before.Bound || before.HasNext() {
		t.Fatalf("%+v", before)
	}
	if _, err := os.Stat(f.path(formerKey)); err != nil {
		t.Fatal("a reader has changed the folder:", err)
	}
	check(t, f.maintain(false))
	for _, name := range []string{formerKey, "server.crt", "ca.crt"} {
		if _, err := os.Lstat(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ep, shown := shows(t, f)
	if !shown.Equal(leaf) || ep.Open || !ep.Bound || !ep.Former || !ep.HasNext() || ep.Port != before.Port {
		t.Fatalf("%+v", ep)
	}
	if got := ep.Trust(before.CAPEM); !got.Shown || got.Next {
		t.Errorf("an entry from before: %+v", got)
	}
	both := ep.Authorities([][]byte{before.CAPEM})
	if got := ep.Trust(both); got != (Trust{Shown: true, Next: true}) {
		t.Errorf("the first entry that is written: %+v", got)
	}
	if got := ep.Trust(ep.Authorities([][]byte{both, before.CAPEM})); !got.Shown {
		t.Errorf("another entry knows the former alone, and this one: %+v", got)
	}
	if got := ep.Trust(ep.Authorities(nil)); !got.Shown {
		t.Errorf("no entry is known, and the one that is written: %+v", got)
	}
	alone := ep.Authorities([][]byte{both, both})
	if got := ep.Trust(alone); got.Shown || !got.Next {
		t.Errorf("an entry that is written after all: %+v", got)
	}
	if err := verify(leaf, alone, "127.0.0.1", now); err == nil {
		t.Error("it verifies the former certificate")
	}
	check(t, f.maintain(true))
	ep, shown = shows(t, f)
	if got := ep.Trust(both); !got.Shown || !got.Stray {
		t.Errorf("an entry that knows the former one too: %+v", got)
	}
	if err := verify(shown, alone, "127.0.0.1", now); err != nil || shown.Equal(leaf) || ep.Former {
		t.Errorf("%v, %+v", err, ep)
	}
}

// TestFormerKeyInterrupted: killed at any step, the next call finishes.
func TestFormerKeyInterrupted(t *testing.T) {
	for _, gone := range [][]string{nil, {formerKey}, {formerKey, "server.crt"}} {
		d := testDirs(t)
		check(t, d.Prepare())
		f := on(t, d.State, "a", time.Now())
		leaf := former(t, f)
		i, err := f.former()
		check(t, err)
		check(t, f.write(machineRecord{[]identity{i}})) // killed after this, and after some of the files
		for _, name := range gone {
			check(t, os.Remove(f.path(name)))
		}
		if _, shown := shows(t, f); !shown.Equal(leaf) {
			t.Errorf("%v: it shows another certificate", gone)
		}
		check(t, f.maintain(false))
		if _, shown := shows(t, f); !shown.Equal(leaf) {
			t.Errorf("%v: it shows another certificate after all", gone)
		}
		for _, name := range []string{formerKey, "server.crt", "ca.crt"} {
			if _, err := os.Lstat(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: %s: %v", gone, name, err)
			}
		}
		other := on(t, d.State, "b", time.Now())
		if ep, shown := shows(t, other); shown.Equal(leaf) || ep.Former {
			t.Errorf("%v: another machine shows the former certificate", gone)
		}
	}
	d := testDirs(t)
	check(t, d.Prepare())
	f := on(t, d.State, "a", time.Now())
	former(t, f)
	check(t, os.Remove(f.path("server.crt")))
	if err := f.maintain(false); err == nil || !strings.Contains(hint.Of(err), "kubeconfig set") {
		t.Errorf("half of it was there: %v", err)
	}
	if _, err := f.setup(); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of it was there: %v", err)
	}
}

// former makes what older programs made.
func former(t *testing.T, f folder) *x509.Certificate {
	t.Helper()
	ca, err := NewAuthority("kubehsm bridge", 3650*24*time.Hour)
	check(t, err)
	der, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: ca.Certificate.NotBefore, NotAfter: ca.Certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}})
	check(t, err)
	check(t, os.Mkdir(f.path(""), 0o700))
	for name, b := range map[string][]byte{"port": []byte("23456\n"), "ca.crt": CertificatePEM(ca.Certificate.Raw),
		"server.crt": CertificatePEM(der), formerKey: key} {
		check(t, os.WriteFile(f.path(name), b, 0o600))
	}
	leaf, err := x509.ParseCertificate(der)
	check(t, err)
	return leaf
}
