package agent

import (
	"bytes"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/entry"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/expiry"
)

// errInFull has a client ask in full: hello, prepare, prompts.
var errInFull = errors.New("the credential is not at hand")

// answer sends the finished ExecCredential if everything for it is at hand, and
// tells whether it did. Whatever is wrong is not told: asked in full, it is
// found again and there are words for it.
func (a *agent) answer(l *link, r request) bool {
	b := a.atHand(l, r)
	if b == nil {
		return false
	}
	defer clear(b)
	if err := l.writeSecret(b); err != nil && l.ctx.Err() == nil {
		a.log.Warn("answer", "op", r.Op, "error", err)
	}
	return true
}

// atHand returns the ExecCredential, or nil: for a program other than the
// agent's own (it may want to replace the agent), for an entry that is not in
// order, for a connection that is not known to be good, for another program than
// the one that asks.
func (a *agent) atHand(l *link, r request) []byte {
	if r.V != a.o.protocol || !r.Program.SameFile(a.program) ||
		r.Program.Path != a.program.Path && resolve(r.Program.Path) != a.program.Path {
		return nil
	}
	q, err := execcredential.Read(r.ExecInfo)
	if err != nil {
		return nil
	}
	name, err := entry.Name(r.Enrollment, q)
	if err != nil {
		return nil
	}
	now := time.Now()
	t, err := a.targets.target(name)
	if err != nil || t.inDate(now) != nil || a.bridge.ensure() != nil || !t.warm(now) || entry.Check(t.e, q) != nil {
		return nil
	}
	who := requester{enrollment: name, command: r.Purpose.Command}
	who.client, who.kin, err = a.o.identify(l.peer, r.Client)
	if err != nil || a.needsAttendant(t, who.client) || a.warns(t, now) {
		return nil
	}
	s, err := a.session(t, who)
	if err != nil {
		return nil
	}
	defer clear(s.Key)
	var b bytes.Buffer
	err = execcredential.Write(&b, q.APIVersion, execcredential.Response{
		CertificatePEM: s.Certificate, KeyPEM: s.Key, Expiration: s.Expires})
	if err != nil || b.Len() > wire.MaxSecret {
		clear(b.Bytes())
		return nil
	}
	return b.Bytes()
}

// warns tells whether the person is still to be told today that the certificate
// ends soon, which needs words.
func (a *agent) warns(t *target, now time.Time) bool {
	leaf := t.chain[0]
	return expiry.Due(leaf.NotBefore, leaf.NotAfter, now) && !expiry.Told(expiry.Dir(a.o.Dirs.State), t.e.Name, leaf.NotAfter, now)
}
