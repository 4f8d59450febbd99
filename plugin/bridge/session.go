package bridge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// The lives of a session.
const (
	// SessionLife is when the client should ask again. Short, so that a crashed
	// agent heals under a client that runs on (KEP-541 expirationTimestamp).
	SessionLife = 5 * time.Minute
	// sessionGrace is how long new requests are taken after that from a client
	// whose end cannot be seen: clocks and slow plugins.
	sessionGrace = time.Minute
	// certificateLife is how long the certificate stays the same. Some clients run
	// the plugin once and show its certificate as long as they live, and a new one
	// makes client-go close every connection. So it is long; it ends with the
	// client, the agent or a lock anyway.
	certificateLife = 365 * 24 * time.Hour
	// leftFor is how long the session of a client that has ended waits for another:
	// some programs start the plugin by "sh -c", and connect when that shell has gone.
	leftFor = 30 * time.Second
	// lookEvery is how often a session's requests have the system asked whether its
	// client still runs.
	lookEvery = time.Second
)

// Sessions hands out loopback client certificates and knows them again. Its
// authority lives and dies with it: what an earlier agent handed out is unknown.
type Sessions struct {
	ca  *loopback.Authority
	now func() time.Time

	mu      sync.RWMutex
	byCert  map[[sha256.Size]byte]*session
	byOwner map[owner]*session
	// locked are sessions that a lock has ended, and that begin again with the next
	// unlock: see [Sessions.Lock].
	locked map[[sha256.Size]byte]*session
	// ready are sessions for the next client of each enrollment: kubectl, a new client for each command, does not
	// wait for a key and a certificate.
	ready map[string]*session
}

// Client is the process that a session is for.
type Client = process.ID

type owner struct {
	enrollment string
	client     Client
}

// session is one handed-out certificate.
type session struct {
	owner
	hash     [sha256.Size]byte
	cert     []byte   // PEM
	key      []byte   // PEM
	kin      []Client // processes that have started the client, and may be it instead
	created  time.Time
	notAfter time.Time
	issued   atomic.Int64           // Unix nanoseconds: when it was handed out last
	seen     atomic.Int64           // Unix nanoseconds: when its client was seen to run last
	adopted  atomic.Pointer[Client] // the one of kin that turned out to be the client
	met      atomic.Bool            // the client has connected itself
	told     atomic.Bool            // the kernel has identified a connection's process
	asleep   atomic.Bool            // ended by a lock, see [Sessions.Lock]
	requests atomic.Uint64
	open     atomic.Int64
}

// Credential is a loopback client certificate.
type Credential struct {
	Certificate []byte // PEM
	Key         []byte // PEM
	Expires     time.Time
	New         bool // the client has not had it before
}

// SessionStatus describes a session.
type SessionStatus struct {
	Enrollment string    `json:"enrollment"`
	Client     Client    `json:"client"`
	Created    time.Time `json:"created"`
	// Until is when the bridge takes no new requests of it; zero while its client
	// is seen to run.
	Until    time.Time `json:"until,omitzero"`
	Requests uint64    `json:"requests"`
	// Open is the number of requests and streams in flight.
	Open int64 `json:"open"`
}

// sessionIssuer is the name of every agent's authority. By it a certificate of an
// agent that has gone is told from one that no agent has issued.
const sessionIssuer = "kubehsm sessions"

// NewSessions makes the authority. now is [time.Now] outside tests.
func NewSessions(now func() time.Time) (*Sessions, error) {
	ca, err := loopback.NewAuthority(sessionIssuer, 10*365*24*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("session authority: %w", err)
	}
	return &Sessions{ca: ca, now: now,
		byCert: map[[sha256.Size]byte]*session{}, byOwner: map[owner]*session{},
		locked: map[[sha256.Size]byte]*session{}, ready: map[string]*session{}}, nil
}

// Issue returns the client's certificate for the enrollment, the same as long
// as it lives. The session lives as long as the client; where the end of that one
// cannot be seen, its life counts from now again. kin have started the client: one of them may
// have started the plugin by it.
func (s *Sessions) Issue(enrollment string, c Client, kin []Client) (Credential, error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := owner{enrollment, c}
	e := s.byOwner[o]
	isNew := false
	if e == nil || now.Add(2*SessionLife).After(e.notAfter) {
		fresh := s.ready[enrollment]
		delete(s.ready, enrollment)
		if fresh == nil {
			var err error
			if fresh, err = s.issue(enrollment, now); err != nil {
				return Credential{}, fmt.Errorf("loopback certificate: %w", err)
			}
		}
		fresh.owner, fresh.created = o, now
		fresh.kin, isNew = kin, true
		e = fresh // the old one is left to its last requests; Sweep removes it
		s.byOwner[o], s.byCert[e.hash] = e, e
		go s.prepare(e, now)
	}
	e.issued.Store(now.UnixNano())
	return Credential{Certificate: bytes.Clone(e.cert), Key: bytes.Clone(e.key), Expires: now.Add(SessionLife),
		New: isNew}, nil
}

// prepare makes a session for the client after that of e, unless e has been forgotten or locked meanwhile. If no client
// comes, it is forgotten like that of a client whose end cannot be seen.
func (s *Sessions) prepare(e *session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byOwner[e.owner] != e || s.ready[e.enrollment] != nil {
		return
	}
	if next, err := s.issue(e.enrollment, now); err == nil { // after a failure the next client tries again
		next.issued.Store(now.UnixNano())
		s.ready[e.enrollment] = next
	}
}

// issue makes a session without a client.
func (s *Sessions) issue(enrollment string, now time.Time) (*session, error) {
	notAfter := now.Add(certificateLife)
	der, key, err := s.ca.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kubehsm session " + enrollment},
		NotBefore:   now.Add(-5 * time.Minute),
		NotAfter:    notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	return &session{owner: owner{enrollment: enrollment}, hash: sha256.Sum256(der), cert: loopback.CertificatePEM(der),
		key: key, notAfter: notAfter}, nil
}

// find returns the session of a certificate, nil if it is none of ours. The
// TLS handshake has proven the key; the whole certificate is compared, so its
// authority's signature needs no second look.
func (s *Sessions) find(cert *x509.Certificate) *session {
	hash := sha256.Sum256(cert.Raw)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byCert[hash]
}

// ofLocked returns the session that belongs to a certificate and that a lock has ended. It
// returns nil if there is no such session or its program has ended.
func (s *Sessions) ofLocked(cert *x509.Certificate) *session {
	hash := sha256.Sum256(cert.Raw)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.locked[hash]; e != nil && e.alive() {
		return e
	}
	return nil
}

// Sleeping are the enrollments with a session that a lock has ended and whose program
// still runs.
func (s *Sessions) Sleeping() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for _, e := range s.locked {
		if e.alive() && !slices.Contains(names, e.enrollment) {
			names = append(names, e.enrollment)
		}
	}
	return names
}

// revive resumes a session that a lock has ended. It returns false if another request has
// already resumed it.
func (s *Sessions) revive(e *session) bool {
	if !e.asleep.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked[e.hash] != e {
		return false
	}
	e.asleep.Store(false)
	delete(s.locked, e.hash)
	s.byCert[e.hash] = e
	if s.byOwner[e.owner] == nil {
		s.byOwner[e.owner] = e
	}
	return true
}

// ended tells whether the session takes no new requests: its client has ended or,
// where that cannot be seen, its time has.
func (e *session) ended(now time.Time) bool {
	return !e.runs(now) && now.After(e.until())
}

// runs tells whether the client is seen to run.
func (e *session) runs(now time.Time) bool {
	if !e.client.Known() {
		return false
	}
	if since := now.UnixNano() - e.seen.Load(); since >= 0 && since < int64(lookEvery) {
		return true
	}
	if !e.alive() {
		return false
	}
	e.seen.Store(now.UnixNano())
	return true
}

// alive asks the system whether the client runs.
func (e *session) alive() bool {
	other := e.adopted.Load()
	return e.client.Known() && (e.client.Alive() || other != nil && other.Alive())
}

// until is when a session ends whose client is not seen to run.
func (e *session) until() time.Time {
	life := SessionLife + sessionGrace
	switch {
	case e.met.Load():
		life = 0 // the session waits for no other client
	case e.client.Known():
		life = leftFor
	}
	return time.Unix(0, e.issued.Load()).Add(life)
}

// Drop forgets the sessions of an enrollment; "" means all.
func (s *Sessions) Drop(enrollment string) {
	s.remove(func(e *session) bool { return enrollment == "" || e.enrollment == enrollment }, never)
}

// Lock ends the sessions of an enrollment until the next unlock; "" means all enrollments.
// Many clients run the plugin only once. If the kernel has identified such a client's
// connections, the client may resume its session with its certificate after the unlock. All
// other sessions are forgotten, because nothing shows which process holds their certificate.
func (s *Sessions) Lock(enrollment string) {
	s.remove(func(e *session) bool { return enrollment == "" || e.enrollment == enrollment },
		func(e *session) bool { return e.told.Load() && e.alive() })
}

// Sweep forgets sessions without a request in flight that have ended, or whose
// certificate has.
func (s *Sessions) Sweep() {
	now := s.now()
	s.remove(func(e *session) bool { return e.open.Load() == 0 && (now.After(e.notAfter) || e.ended(now)) }, never)
}

// Clients returns the processes that have a session; some may have ended.
func (s *Sessions) Clients() []Client {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]Client, 0, len(s.byOwner))
	for o, e := range s.byOwner {
		all = append(all, o.client)
		if other := e.adopted.Load(); other != nil {
			all = append(all, *other)
		}
	}
	return all
}

// begin counts a request; what it returns is to be called at its end.
func (s *Sessions) begin(e *session) (end func()) {
	e.requests.Add(1)
	e.open.Add(1)
	return func() { e.open.Add(-1) }
}

func never(*session) bool { return false }

// remove takes the sessions out that are gone, those that a lock has ended among them. The
// ones of these that sleep may begin again.
func (s *Sessions) remove(gone, sleep func(*session) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.ready {
		if gone(e) {
			delete(s.ready, name)
			clear(e.key)
		}
	}
	for hash, e := range s.locked {
		if gone(e) && !sleep(e) {
			delete(s.locked, hash)
			clear(e.key)
		}
	}
	for hash, e := range s.byCert {
		if !gone(e) {
			continue
		}
		delete(s.byCert, hash)
		if s.byOwner[e.owner] == e {
			delete(s.byOwner, e.owner)
		}
		if sleep(e) {
			e.asleep.Store(true)
			s.locked[hash] = e
		} else {
			clear(e.key)
		}
	}
}

// Active counts the sessions that may still send requests or have some in flight.
func (s *Sessions) Active() int {
	now := s.now()
	n := 0
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.byCert {
		if !e.ended(now) || e.open.Load() > 0 {
			n++
		}
	}
	return n
}

// Open counts the requests and streams in flight.
func (s *Sessions) Open() int64 {
	var n int64
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.byCert {
		n += e.open.Load()
	}
	return n
}

// maxStatus bounds how many sessions are listed: scripts may have hundreds.
const maxStatus = 256

// OtherSessions are those that no [SessionStatus] describes.
type OtherSessions struct {
	// Ended counts the sessions of programs that have ended. Until is when the last of them is
	// forgotten at the latest: before that, a program that one of them has started may use it.
	Ended int       `json:"ended,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// More counts further sessions of programs that run.
	More int `json:"more,omitempty"`
	// Requests counts the requests of all these sessions.
	Requests uint64 `json:"requests,omitempty"`
}

// Status lists the sessions of programs that run or have a request in flight, the oldest
// first; of very many the latest 256. The others are summed up.
func (s *Sessions) Status() (all []SessionStatus, others OtherSessions) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all = make([]SessionStatus, 0, min(len(s.byCert), maxStatus))
	for _, e := range s.byCert {
		st := SessionStatus{Enrollment: e.enrollment, Client: e.client, Created: e.created, Requests: e.requests.Load(),
			Open: e.open.Load()}
		if !e.alive() {
			st.Until = e.until()
		}
		if !st.Until.IsZero() && e.client.Known() && st.Open == 0 {
			others.Ended++
			others.Requests += st.Requests
			if st.Until.After(others.Until) {
				others.Until = st.Until
			}
			continue
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b SessionStatus) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Client.PID, b.Client.PID),
			cmp.Compare(a.Enrollment, b.Enrollment))
	})
	others.More = max(0, len(all)-maxStatus)
	for _, st := range all[:others.More] {
		others.Requests += st.Requests
	}
	return all[others.More:], others
}
