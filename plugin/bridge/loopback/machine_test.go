package loopback

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
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
	check(t, later.maintain())
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
	check(t, at(nextBefore-time.Hour).maintain())
	if ep, _ := shows(t, at(0)); ep.next != nil || !bytes.Equal(ep.CAPEM, first.CAPEM) {
		t.Fatal("the next one was made early")
	}
	middle := at(nextBefore + time.Hour)
	check(t, middle.maintain())
	both, still := shows(t, middle)
	if both.next == nil || !still.Equal(leaf) || len(certificates(both.CAPEM)) != 2 {
		t.Fatalf("%+v", both)
	}
	check(t, middle.maintain())
	if ep, _ := shows(t, middle); !bytes.Equal(ep.CAPEM, both.CAPEM) {
		t.Error("another one was made")
	}
	if got := both.Trust(first.CAPEM); !got.Shown || got.Next {
		t.Errorf("an old entry: %+v", got)
	}
	end := at(identityLife - time.Hour)
	check(t, end.maintain())
	after, next := shows(t, end)
	if got := after.Trust(both.CAPEM); next.Equal(leaf) || after.Trust(first.CAPEM).Shown || !got.Shown || got.Stray {
		t.Errorf("%+v, %+v", after, got)
	}
	if err := verify(next, both.CAPEM, "localhost", end.now); err != nil {
		t.Error(err)
	}
}
