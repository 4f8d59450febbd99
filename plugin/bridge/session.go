package bridge

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// The lives of a session.
const (
	// SessionLife is when the client should ask again. Short, so that a crashed
	// agent heals under a client that runs on (KEP-541 expirationTimestamp).
	SessionLife = 5 * time.Minute
	// sessionGrace is how long new requests are taken after that: clocks and
	// slow plugins.
	sessionGrace = time.Minute
	// certificateLife is how long the certificate stays the same. A new one
	// makes client-go close every connection, so it is long; it ends with the
	// agent or a lock anyway.
	certificateLife = 12 * time.Hour
	// leftFor is how long the session of a client that has ended is kept after
	// its last use: whoever ran the plugin by a script of their own is not its
	// parent, and may come later.
	leftFor = 30 * time.Second
)

// Sessions hands out loopback client certificates and knows them again. Its
// authority lives and dies with it: what an earlier agent handed out is unknown.
type Sessions struct {
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
	now func() time.Time

	mu      sync.RWMutex
	byCert  map[[sha256.Size]byte]*session
	byOwner map[owner]*session
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
	cert     []byte // PEM
	key      []byte // PEM
	created  time.Time
	notAfter time.Time
	until    atomic.Int64 // Unix nanoseconds: new requests are taken until then
	used     atomic.Int64 // Unix nanoseconds: when it was issued last, or its last request ended
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
	// Until is when the bridge takes no new requests of it.
	Until    time.Time `json:"until"`
	Requests uint64    `json:"requests"`
	// Open is the number of requests and streams in flight.
	Open int64 `json:"open"`
}

// sessionIssuer is the name of every agent's authority. By it a certificate of an
// agent that has gone is told from one that no agent has issued.
const sessionIssuer = "kubehsm sessions"

// NewSessions makes the authority. now is [time.Now] outside tests.
func NewSessions(now func() time.Time) (*Sessions, error) {
	ca, key, err := newAuthority(sessionIssuer, 10*365*24*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("session authority: %w", err)
	}
	return &Sessions{ca: ca, key: key, now: now,
		byCert: map[[sha256.Size]byte]*session{}, byOwner: map[owner]*session{}}, nil
}

// Issue returns the client's certificate for the enrolment, the same as long
// as it lives, and counts the session's life from now again.
func (s *Sessions) Issue(enrollment string, c Client) (Credential, error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := owner{enrollment, c}
	e := s.byOwner[o]
	isNew := false
	if e == nil || now.Add(2*SessionLife).After(e.notAfter) {
		fresh, err := s.issue(o, now)
		if err != nil {
			return Credential{}, fmt.Errorf("loopback certificate: %w", err)
		}
		isNew = true
		e = fresh // the old one is left to its last requests; Sweep removes it
		s.byOwner[o], s.byCert[e.hash] = e, e
	}
	expires := now.Add(SessionLife)
	e.until.Store(expires.Add(sessionGrace).UnixNano())
	e.used.Store(now.UnixNano())
	return Credential{Certificate: bytes.Clone(e.cert), Key: bytes.Clone(e.key), Expires: expires, New: isNew}, nil
}

func (s *Sessions) issue(o owner, now time.Time) (*session, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	notAfter := now.Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "kubehsm session " + o.enrollment},
		NotBefore:    now.Add(-5 * time.Minute),
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.ca, key.Public(), s.key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(keyDER)
	return &session{owner: o, hash: sha256.Sum256(der), cert: pemCertificate(der),
		key:     pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		created: now, notAfter: notAfter}, nil
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

func (e *session) expired(now time.Time) bool { return now.UnixNano() > e.until.Load() }

// Drop forgets the sessions of an enrolment; "" means all.
func (s *Sessions) Drop(enrollment string) {
	s.remove(func(e *session) bool { return enrollment == "" || e.enrollment == enrollment })
}

// Sweep forgets sessions without a request in flight that nobody will use again:
// of a client that has ended, or whose certificate or, where the client is not
// known, whose time has.
func (s *Sessions) Sweep() {
	now := s.now()
	s.remove(func(e *session) bool {
		switch {
		case e.open.Load() > 0:
			return false
		case now.After(e.notAfter):
			return true
		case e.client.Known() && !e.client.Alive():
			return now.Sub(time.Unix(0, e.used.Load())) > leftFor
		}
		return e.expired(now) && !e.client.Known()
	})
}

// Clients returns the processes that have a session; some may have ended.
func (s *Sessions) Clients() []Client {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]Client, 0, len(s.byOwner))
	for o := range s.byOwner {
		all = append(all, o.client)
	}
	return all
}

// begin counts a request; what it returns is to be called at its end.
func (s *Sessions) begin(e *session) (end func()) {
	e.requests.Add(1)
	e.open.Add(1)
	return func() {
		e.used.Store(s.now().UnixNano())
		e.open.Add(-1)
	}
}

func (s *Sessions) remove(gone func(*session) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, e := range s.byCert {
		if !gone(e) {
			continue
		}
		delete(s.byCert, hash)
		if s.byOwner[e.owner] == e {
			delete(s.byOwner, e.owner)
		}
		clear(e.key)
	}
}

// Active counts the sessions that may still send requests or have some in flight.
func (s *Sessions) Active() int {
	now := s.now()
	n := 0
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.byCert {
		if !e.expired(now) || e.open.Load() > 0 {
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

// Status lists the sessions, the oldest first; of very many the latest 256.
func (s *Sessions) Status() []SessionStatus {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]SessionStatus, 0, len(s.byCert))
	for _, e := range s.byCert {
		all = append(all, SessionStatus{Enrollment: e.enrollment, Client: e.client, Created: e.created,
			Until: time.Unix(0, e.until.Load()), Requests: e.requests.Load(), Open: e.open.Load()})
	}
	slices.SortFunc(all, func(a, b SessionStatus) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Client.PID, b.Client.PID), cmp.Compare(a.Enrollment, b.Enrollment))
	})
	return all[max(0, len(all)-maxStatus):]
}
