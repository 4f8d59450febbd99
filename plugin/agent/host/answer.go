package host

import (
	"errors"
	"log/slog"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/entry"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// errInFull has a client ask in full: hello, prepare, prompts.
var errInFull = errors.New("the credential is not at hand")

// credentials answers with finished credentials.
type credentials struct {
	program  wire.Build // the agent's
	protocol int
	identify func(plugin process.ID, own bool, _ hsm.Purpose) (client process.ID, kin []process.ID, err error)
	targets  *targets
	bridge   *bridgeHost
	issuer   *issuer
	state    string // the folder in which it is noted what was told
	renewer  *renewing.Renewer
	log      *slog.Logger
}

// answer sends the finished ExecCredential if f asks for one and everything for it is at hand, and
// tells whether it did. Whatever is wrong is not told: asked in full, it is
// found again and there are words for it.
func (s *credentials) answer(l *link.Server, f wire.Frame) bool {
	var q wire.Credential
	if f.Decode(&q) != nil || q.Op != wire.OpCredential { // another operation's fields may have other types
		return false
	}
	plugin, err := l.Peer()
	if err != nil {
		return false
	}
	b := s.atHand(plugin, q)
	if b == nil {
		return false
	}
	defer clear(b)
	if err := l.AnswerSecret(b); err != nil && l.Context().Err() == nil {
		s.log.Warn("answer", "op", q.Op, "error", err)
	}
	return true
}

// atHand returns the ExecCredential, or nil: for a program other than the
// agent's own (it may want to replace the agent), for an entry that is not in
// order, for a connection that is not known to be good, for another program than
// the one that asks.
func (s *credentials) atHand(plugin process.ID, r wire.Credential) []byte {
	if r.V != s.protocol || !r.Program.SameFile(s.program) ||
		r.Program.Path != s.program.Path && message.Resolve(r.Program.Path) != s.program.Path {
		return nil
	}
	q, err := execcredential.Assume(r.APIVersion)
	if r.ExecInfo != "" || r.Enrollment == "" {
		q, err = execcredential.Read(r.ExecInfo)
	}
	if err != nil {
		return nil
	}
	name, err := entry.Name(r.Enrollment, q)
	if err != nil {
		return nil
	}
	now := time.Now()
	if t := s.targets.current(name); t == nil || !t.warm(now) {
		return nil // a cold command checks the rest once, when it asks in full
	}
	t, err := s.targets.target(name)
	if err != nil || t.inDate(now) != nil || s.bridge.ensure() != nil || !t.warm(now) || entry.Check(t.e, q) != nil ||
		q.Cluster != nil && s.bridge.known(name, q.Cluster.CAData) != nil {
		return nil
	}
	who := auditing.Requester{Enrollment: name}
	who.Client, who.Kin, err = s.identify(plugin, false, hsm.Purpose{})
	if err != nil || s.issuer.needsAttendant(t, who.Client) || s.warns(t, now) {
		return nil
	}
	c, err := s.issuer.issue(t, who)
	if err != nil {
		return nil
	}
	defer clear(c.Key)
	b := execcredential.Encode(q.APIVersion, execcredential.Response{
		CertificatePEM: c.Certificate, KeyPEM: c.Key, Expiration: c.Expires}) // parts that this agent made for each other
	if len(b) > wire.MaxSecret {
		clear(b)
		return nil
	}
	return b
}

// warns tells whether the person is still to be told today that the certificate
// ends soon, which needs words.
func (s *credentials) warns(t *target, now time.Time) bool {
	leaf := t.chain[0]
	due, _ := renewing.Due(s.targets.store, t.key, leaf, now, func() bool { return s.renewer.Off })
	return due && !expiry.Told(expiry.Dir(s.state), t.key.Name, leaf.NotAfter, now)
}
