package host

import (
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// issuer hands out sessions.
type issuer struct {
	sessions   *bridge.Sessions
	responders *queue.Responders
	terminals  *terminals
	life       *life
	records    *auditing.Records
}

// issue hands out a session.
func (s *issuer) issue(t *target, q auditing.Requester) (*message.Session, error) {
	c, err := s.sessions.Issue(t.e.Name, q.Client, q.Kin)
	if err != nil {
		return nil, err
	}
	s.terminals.mayWrite(q.Client)
	if c.New {
		s.records.Session(q, nil)
	}
	s.life.handedOut()
	return &message.Session{Certificate: c.Certificate, Key: c.Key, Expires: c.Expires,
		CertificateExpires: t.chain[0].NotAfter}, nil
}

// attended is issue to a client that leaves somebody behind who can be asked about its requests.
func (s *issuer) attended(t *target, q auditing.Requester) (*message.Session, error) {
	out, err := s.issue(t, q)
	if err == nil && s.needsAttendant(t, q.Client) {
		out.Attend = true
		s.responders.Expect(q.Client, time.Now())
	}
	return out, err
}

// needsAttendant tells whether the client has to leave somebody behind who can
// ask, and has not yet: then it must ask in full.
func (s *issuer) needsAttendant(t *target, client process.ID) bool {
	return t.policy.Asks() && client.Known() && s.responders.Attendant(client) == nil
}
