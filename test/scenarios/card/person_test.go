//go:build linux && cgo

package card

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// What the card's owner knows; a PIV PIN has at most 8 digits.
const (
	ownPIN = "73916402"
	ownPUK = "80462739"
)

// What prompts begin with.
const (
	pinPrompt   = "needs its PIV PIN"
	touchPrompt = "Touch the token"
)

// patience bounds waits for what a healthy system does at once.
const patience = 2 * time.Minute

// person is somebody with a card in the reader and a lab.
type person struct {
	*lab.Lab
	t    testing.TB
	card *vcard.Card
	// readers is where the card is, in the first.
	readers *vcard.Lab
	// uri names the card and its slot 9a.
	uri string
	// wanted gets a value when the card needs a touch, and touched takes one
	// when it is touched.
	wanted, touched chan struct{}
	// hidden are secrets that no terminal may show.
	hidden []string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	return newPersonAt(t, vcard.Config{Serial: 12345678}, nil)
}

// newPersonAt has a card of its own kind, and the shared cluster if that is nil.
func newPersonAt(t *testing.T, config vcard.Config, cluster *controlplane.Cluster) *person {
	t.Helper()
	p := &person{t: t, readers: vcard.ForTest(t), uri: fmt.Sprintf("piv:serial=%d;slot=9a", config.Serial),
		wanted: make(chan struct{}), touched: make(chan struct{})}
	config.Touch = p.wait
	p.card = vcard.New(config)
	t.Cleanup(func() { p.atRest("everything") }) // when the lab is closed
	p.Lab = lab.ForTest(t, lab.Options{Cluster: cluster}).Lab
	p.readers.Insert(t, 0, p.card)
	return p
}

// wait is the card's wish to be touched.
func (p *person) wait(_ byte, done <-chan struct{}) bool {
	for _, c := range []chan struct{}{p.wanted, p.touched} {
		select {
		case c <- struct{}{}:
		case <-done:
			return false
		}
	}
	return true
}

// in is the person in a subtest.
func (p *person) in(t testing.TB) *person {
	in := *p
	in.t = t
	return &in
}

// touch waits until the terminal says that a touch is wanted and the card wants
// it, and then touches the card.
func (p *person) touch(s *term.Session) {
	p.t.Helper()
	p.touches(s, touchPrompt)
}

// touches is touch where the terminal says so with these words, in which it differs from the touch before or after.
func (p *person) touches(s *term.Session, words string) {
	p.t.Helper()
	s.WaitFor(words)
	p.finger(s)
	s.WaitGone(words)
}

// finger touches the card as soon as it wants that.
func (p *person) finger(s *term.Session) {
	p.t.Helper()
	for _, c := range []chan struct{}{p.wanted, p.touched} {
		select {
		case <-c:
		case <-time.After(patience):
			p.t.Fatalf("the card wants no touch; the screen:\n%s", s.Screen())
		}
	}
}

// atRest checks that the card would do nothing for another program.
func (p *person) atRest(after string) {
	p.t.Helper()
	if p.card.Verified() || p.card.Managed() {
		p.t.Errorf("after %s the card has the PIN verified: %v, the management key proved: %v", after, p.card.Verified(),
			p.card.Managed())
	}
}

// ok is the output of a program that succeeded.
func (p *person) ok(res lab.Result, err error) string {
	p.t.Helper()
	must.OK(p.t, err)
	if res.Code != 0 {
		p.t.Fatal(res)
	}
	return res.Stdout
}

// kubectl runs kubectl without a terminal, which must succeed.
func (p *person) kubectl(args ...string) string {
	p.t.Helper()
	return p.ok(p.Kubectl(p.t.Context(), args...))
}

// terminal runs a program on a terminal.
func (p *person) terminal(program string, args ...string) *term.Session {
	p.t.Helper()
	return term.Run(p.t, term.Options{Path: program, Args: args, Dir: p.Dir, Env: p.Env(), Secrets: p.hidden, Columns: 120,
		Rows: 100})
}
