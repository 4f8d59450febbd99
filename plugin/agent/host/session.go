package host

import (
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// issuer hands out sessions.
type issuer struct {
	sessions  *bridge.Sessions
	people    *responders
	terminals *terminals
	life      *life
	records   *records
}

// issue hands out a session.
func (s *issuer) issue(t *target, q requester) (*message.Session, error) {
	c, err := s.sessions.Issue(t.e.Name, q.client, q.kin)
	if err != nil {
		return nil, err
	}
	s.terminals.mayWrite(q.client)
	if c.New {
		s.records.session(q, nil)
	}
	s.life.handedOut()
	out := &message.Session{Certificate: c.Certificate, Key: c.Key, Expires: c.Expires, CertificateExpires: t.chain[0].NotAfter}
	if out.Attend = s.needsAttendant(t, q.client); out.Attend {
		s.people.expect(q.client, time.Now())
	}
	return out, nil
}

// needsAttendant tells whether the client has to leave somebody behind who can
// ask, and has not yet: then it must ask in full.
func (s *issuer) needsAttendant(t *target, client process.ID) bool {
	return t.policy.Asks() && client.Known() && s.people.attendant(client) == nil
}
