package judge

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"crypto/x509"
	"crypto/x509/pkix"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/vcard"
)

var check = need.NoError

var errDown = errors.New("the cluster does not answer")

// facts is a cluster in memory.
type facts struct {
	tokens  []clusterapi.HardwareToken
	others  []Other
	spent   types.UID // request that the ticket was used for
	revoked revocation.List
	unread  error // error of reading a part of the list
	down    bool
}

func (f *facts) find(is func(*clusterapi.HardwareToken) bool) (*clusterapi.HardwareToken, error) {
	if f.down {
		return nil, errDown
	}
	for i := range f.tokens {
		if is(&f.tokens[i]) {
			return &f.tokens[i], nil
		}
	}
	return nil, nil
}

func (f *facts) Token(serial string) (*clusterapi.HardwareToken, error) {
	return f.find(func(t *clusterapi.HardwareToken) bool { return t.Name == serial })
}

func (f *facts) TokenWithKey(hash string) (*clusterapi.HardwareToken, error) {
	return f.find(func(t *clusterapi.HardwareToken) bool { return t.Status.Key == hash })
}

func (f *facts) Others(string, types.UID) iter.Seq2[Other, error] {
	return func(yield func(Other, error) bool) {
		for _, o := range f.others {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (f *facts) UsedFor(string) (types.UID, error) { return f.spent, nil }

func (f *facts) Revoked(certificate, key string) ([]string, error) {
	return f.revoked.Objections(certificate, key), f.unread
}

// scene is a request of jane's as it should be, and the cluster around it; tests spoil it.
type scene struct {
	t       *testing.T
	ca      *vcard.CA
	serial  uint32
	key     *ecdsa.PrivateKey
	attests any // whose key: a public key, nil for none
	pin     hsm.PINPolicy
	touch   hsm.TouchPolicy
	subject csr.Subject
	options csr.RequestOptions
	terms   *ticket.Terms
	present bool // the request carries a certificate, and was filed with it
	of      *ecdsa.PrivateKey
	since   time.Duration // age of the certificate that the request carries, which is valid for 24 hours
	edit    func(*certificatesv1.CertificateSigningRequest)
	policy  clusterapi.PolicySpec
	cluster facts
}

// revokeKey puts the scene's key on the cluster's list.
func revokeKey(s *scene) {
	hash, err := csr.SPKIHash(s.key.Public())
	check(s.t, err)
	s.cluster.revoked = revocation.List{Shards: []revocation.Shard{{Entries: []revocation.Entry{{
		Certificate: strings.Repeat("ab", 32), Key: hash, User: "jane", By: "hannah", Reason: "lost"}}}}}
}

// unread makes a part of the cluster's list unreadable.
func unread(s *scene) {
	s.cluster.unread = fmt.Errorf("policy %s1: %w", revocation.PolicyPrefix, revocation.ErrUnreadable)
}

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func newScene(t *testing.T) *scene {
	ca, err := vcard.NewCA("the maker")
	check(t, err)
	s := &scene{t: t, ca: ca, serial: 1234567, key: newKey(t), pin: hsm.PINOnce, touch: hsm.TouchCached,
		subject: csr.Subject{User: "jane", Groups: []string{"dev"}}}
	s.attests = s.key.Public()
	s.policy.MaxLifetime.Duration = 30 * 24 * time.Hour
	s.policy.DeskUsers, s.policy.DeskGroups = []string{"jane", "system:*"}, []string{"dev", "ops"}
	s.policy.Attestation.Roots = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw}))
	return s
}

func (s *scene) withTicket() *scene {
	s.terms = &ticket.Terms{User: "jane", Groups: []string{"dev"}, Lifetime: 24 * time.Hour, Serial: "1234567"}
	return s
}

func (s *scene) rostered() *scene {
	s.cluster.tokens = []clusterapi.HardwareToken{{ObjectMeta: metav1.ObjectMeta{Name: "1234567"},
		Spec: clusterapi.TokenSpec{Owner: "jane", Groups: []string{"dev", "ops"}, State: clusterapi.Active}}}
	return s
}

func (s *scene) renewal() *scene {
	s.rostered().present, s.of = true, s.key
	return s
}

func (s *scene) token() *clusterapi.HardwareToken { return &s.cluster.tokens[0] }

func (s *scene) object() *certificatesv1.CertificateSigningRequest {
	s.t.Helper()
	if s.attests != nil {
		device, err := s.ca.NewDevice(s.serial)
		check(s.t, err)
		a, err := device.Attest(s.attests, s.pin, s.touch)
		check(s.t, err)
		s.options.ExtraExtensions = append(s.options.ExtraExtensions, attest.Extensions(a)...)
	}
	request, err := csr.NewRequest(s.key, s.subject, s.options)
	check(s.t, err)
	seconds := int32(24 * 60 * 60)
	obj := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "jane-1", UID: "uid-2", ResourceVersion: "200", CreationTimestamp: metav1.NewTime(now),
			Annotations: map[string]string{}},
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: csr.ClientSigner,
			ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Username: "somebody", Groups: []string{"system:authenticated"}},
	}
	if s.terms != nil {
		obj.Spec.Username = "system:bootstrap:abcdef"
		obj.Spec.Groups = append(s.terms.TokenGroups(), "system:authenticated", "system:bootstrappers")
	}
	if s.present {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1),
			NotBefore: now.Add(-s.since), NotAfter: now.Add(24*time.Hour - s.since),
			Subject: pkix.Name{CommonName: "jane"}}, &x509.Certificate{Subject: pkix.Name{CommonName: "a CA"}}, s.of.Public(), newKey(s.t))
		check(s.t, err)
		sum := sha256.Sum256(der)
		obj.Spec.Username, obj.Spec.Groups = "jane", []string{"dev", "system:authenticated"}
		obj.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=" +
			hex.EncodeToString(sum[:])}}
		obj.Annotations[clusterapi.PresentCertificate] = base64.StdEncoding.EncodeToString(der)
	}
	if s.edit != nil {
		s.edit(obj)
	}
	return obj
}

// joinLine has the request filed with the join line of the roster.
func joinLine(s *scene) {
	s.edit = func(r *certificatesv1.CertificateSigningRequest) {
		lifetime(24 * time.Hour)(r)
		r.Spec.Username, r.Spec.Groups = bootstraptoken.UserPrefix+"abcdef", []string{ticket.Group}
	}
}

// TestDecide is the table of what is approved, and of what must not be.
func TestDecide(t *testing.T) {
	hour := metav1.NewTime(now.Add(time.Hour))
	past := metav1.NewTime(now.Add(-time.Hour))
	year := metav1.NewTime(now.Add(365 * 24 * time.Hour))
	forged := func(s *scene) { s.ca = mustCA(t) }
	for name, c := range map[string]struct {
		scene  *scene
		spoil  func(*scene)
		want   Verdict
		reason string
		says   string
		admin  bool // AdminOnly
	}{
		"ticket: proven":            {newScene(t).withTicket(), nil, Approve, ReasonTicket, "1234567", false},
		"line: rostered":            {newScene(t).rostered(), joinLine, Approve, ReasonRoster, "1234567", false},
		"line: a group more":        {newScene(t).rostered(), func(s *scene) { joinLine(s); s.subject.Groups = []string{"dev", "sre"} }, Deny, ReasonGroups, "sre", false},
		"line: not on the roster":   {newScene(t), joinLine, Person, ReasonUnknown, "not on the roster", true},
		"line: not attested":        {newScene(t).rostered(), func(s *scene) { joinLine(s); s.attests = nil }, Person, ReasonTerms, "no ticket's terms", true},
		"line: in stock":            {newScene(t).rostered(), func(s *scene) { joinLine(s); s.token().Spec.State = clusterapi.Stock }, Person, ReasonToken, "in stock", true},
		"ticket: token in stock":    {newScene(t).withTicket().rostered(), func(s *scene) { s.token().Spec = clusterapi.TokenSpec{State: clusterapi.Stock} }, Approve, ReasonTicket, "", false},
		"ticket: without a serial":  {newScene(t).withTicket(), func(s *scene) { s.terms.Serial = "" }, Person, ReasonUnproven, "words", false},
		"ticket: no attestation":    {newScene(t).withTicket(), func(s *scene) { s.attests = nil }, Person, ReasonUnproven, "words", false},
		"ticket: policy, no attest": {newScene(t).withTicket(), func(s *scene) { s.attests, s.terms.Policy = nil, ticket.Attested }, Deny, ReasonAttestation, "", false},
		"ticket: forged maker":      {newScene(t).withTicket(), forged, Deny, ReasonAttestation, "maker", false},
		"ticket: another key":       {newScene(t).withTicket(), func(s *scene) { s.attests = newKey(t).Public() }, Deny, ReasonAttestation, "another key", false},
		"ticket: another token":     {newScene(t).withTicket(), func(s *scene) { s.serial = 7654321 }, Deny, ReasonTerms, "7654321", false},
		"ticket: another user":      {newScene(t).withTicket(), func(s *scene) { s.subject.User = "eve" }, Deny, ReasonTerms, "eve", false},
		"ticket: a group more":      {newScene(t).withTicket(), func(s *scene) { s.subject.Groups = []string{"dev", "ops"} }, Deny, ReasonTerms, "ops", false},
		"ticket: longer":            {newScene(t).withTicket(), func(s *scene) { s.edit = lifetime(7 * 24 * time.Hour) }, Deny, ReasonTerms, "lifetime", false},
		"ticket: policy's limit":    {newScene(t).withTicket(), func(s *scene) { s.terms.Lifetime = 0; s.edit = lifetime(365 * 24 * time.Hour) }, Deny, ReasonLifetime, "30 d", false},
		"ticket: no limit asked":    {newScene(t).withTicket(), func(s *scene) { s.terms.Lifetime = 0; s.edit = lifetime(0) }, Deny, ReasonLifetime, "signer", false},
		"ticket: touch":             {newScene(t).withTicket(), func(s *scene) { s.terms.Policy = ticket.Attested | ticket.TouchAlways }, Deny, ReasonTerms, "touch", false},
		"ticket: used":              {newScene(t).withTicket().rostered(), used("uid-1"), Deny, ReasonTicketUsed, "another request", false},
		"ticket: used by itself":    {newScene(t).withTicket().rostered(), used("uid-2"), Approve, ReasonTicket, "", false},
		"ticket: second request": {newScene(t).withTicket(), func(s *scene) {
			s.attests, s.cluster.others = nil, []Other{{UID: "uid-1", Name: "first", Version: 100}}
		}, Deny, ReasonTicketUsed, "first", false},
		"ticket: second, not named": {newScene(t).withTicket(), func(s *scene) {
			s.terms.Serial, s.cluster.others = "", []Other{{UID: "uid-1", Name: "first", Version: 100}}
		}, Deny, ReasonTicketUsed, "first", false},
		"ticket: second, proven": {newScene(t).withTicket(), func(s *scene) {
			s.cluster.others = []Other{{UID: "uid-1", Name: "first", Version: 100}}
		}, Approve, ReasonTicket, "", false},
		"ticket: first of two": {newScene(t).withTicket(), func(s *scene) { s.cluster.others = []Other{{UID: "uid-3", Version: 300}} }, Approve, ReasonTicket, "", false},
		"ticket: approved before": {newScene(t).withTicket(), func(s *scene) {
			s.cluster.others = []Other{{UID: "uid-3", Name: "third", Version: 300, Approved: true}}
		}, Deny, ReasonTicketUsed, "third", false},
		"ticket: spent":                {newScene(t).withTicket(), func(s *scene) { s.attests, s.terms.Serial, s.cluster.spent = nil, "", "uid-1" }, Deny, ReasonTicketUsed, "another request", false},
		"ticket: spent, not named":     {newScene(t).withTicket(), func(s *scene) { s.terms.Serial, s.cluster.spent = "", "uid-1" }, Deny, ReasonTicketUsed, "another request", false},
		"ticket: spent by itself":      {newScene(t).withTicket(), func(s *scene) { s.terms.Serial, s.cluster.spent = "", "uid-2" }, Person, ReasonUnproven, "words", false},
		"ticket: lost token":           {newScene(t).withTicket().rostered(), func(s *scene) { s.token().Spec.State = clusterapi.Lost }, Deny, ReasonToken, "lost", false},
		"ticket: another's token":      {newScene(t).withTicket().rostered(), func(s *scene) { s.token().Spec.Owner = "bob" }, Person, ReasonOwner, "second name", true},
		"ticket: system group":         {newScene(t).withTicket(), func(s *scene) { s.subject.Groups = []string{"system:nodes"}; s.terms.Groups = s.subject.Groups }, Deny, ReasonReserved, "system:nodes", false},
		"ticket: break-glass":          {newScene(t).withTicket(), func(s *scene) { s.subject.Groups = []string{"kubehsm:break-glass"}; s.terms.Groups = s.subject.Groups }, Deny, ReasonReserved, "", false},
		"ticket: group not given":      {newScene(t).withTicket(), func(s *scene) { s.policy.Groups = []string{"ops", "team-*"} }, Deny, ReasonPolicy, "dev", false},
		"ticket: group by pattern":     {newScene(t).withTicket(), func(s *scene) { s.policy.Groups = []string{"d*"} }, Approve, ReasonTicket, "", false},
		"ticket: firmware":             {newScene(t).withTicket(), func(s *scene) { s.policy.Attestation.MinFirmware = "5.10" }, Deny, ReasonPolicy, "5.7.1", false},
		"ticket: FIPS":                 {newScene(t).withTicket(), func(s *scene) { s.policy.Attestation.FIPS = true }, Deny, ReasonPolicy, "FIPS", false},
		"ticket: PIN":                  {newScene(t).withTicket(), func(s *scene) { s.policy.Attestation.PIN = "always" }, Deny, ReasonPolicy, "PIN", false},
		"ticket: none listed":          {newScene(t).withTicket(), func(s *scene) { s.policy.DeskGroups = nil }, Person, ReasonNotForDesk, `the group "dev"`, true},
		"ticket: no names listed":      {newScene(t).withTicket(), func(s *scene) { s.policy.DeskUsers = nil }, Person, ReasonNotForDesk, `the user name "jane"`, true},
		"ticket: others listed":        {newScene(t).withTicket(), func(s *scene) { s.policy.DeskUsers = []string{"x*", "*x", "jan", "j*x", "jan*ane"} }, Person, ReasonNotForDesk, "jane", true},
		"ticket: listed by *":          {newScene(t).withTicket(), func(s *scene) { s.policy.DeskUsers, s.policy.DeskGroups = []string{"j*e"}, []string{"*"} }, Approve, ReasonTicket, "", false},
		"ticket: unproven, not listed": {newScene(t).withTicket(), func(s *scene) { s.attests, s.policy.DeskGroups = nil, []string{"ops"} }, Person, ReasonNotForDesk, "dev", true},
		"ticket: a name more":          {newScene(t).withTicket(), func(s *scene) { s.options.DNSNames = []string{"api.example"} }, Deny, ReasonTerms, "alternative", false},
		"ticket: terms cut off": {newScene(t).withTicket(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { o.Spec.Groups = o.Spec.Groups[:1] }
		}, Person, ReasonUnknown, "", true},
		"ticket: terms changed": {newScene(t).withTicket(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) {
				o.Spec.Groups[1] = strings.ToUpper(o.Spec.Groups[1])
			}
		}, Person, ReasonUnknown, "", true},

		"renewal: attested": {newScene(t).renewal(), nil, Approve, ReasonRenewal, "", false},
		"renewal: same key, not attested": {newScene(t).renewal(), func(s *scene) {
			s.attests = nil
			s.token().Status.Key, _ = csr.SPKIHash(s.key.Public())
		}, Approve, ReasonRenewal, "", false},
		"renewal: same key, no roster":          {newScene(t).renewal(), func(s *scene) { s.attests, s.cluster.tokens = nil, nil }, Person, ReasonUnknown, "", false},
		"renewal: same key, allowed":            {newScene(t).renewal(), func(s *scene) { s.attests, s.cluster.tokens, s.policy.RenewUnrostered = nil, nil, true }, Approve, ReasonRenewal, "", false},
		"renewal: new key, not attested":        {newScene(t).renewal(), func(s *scene) { s.attests, s.of = nil, newKey(t) }, Person, ReasonUnproven, "", true},
		"renewal: attacker's token":             {newScene(t).renewal(), func(s *scene) { s.serial, s.of, s.policy.RenewUnrostered = 666, newKey(t), true }, Person, ReasonUnknown, "", false},
		"renewal: another's token":              {newScene(t).renewal(), func(s *scene) { s.token().Spec.Owner = "eve" }, Person, ReasonOwner, "", true},
		"renewal: another key, another's token": {newScene(t).renewal(), func(s *scene) { s.of, s.token().Spec.Owner = newKey(t), "eve" }, Deny, ReasonOwner, "", false},
		"renewal: another's certificate":        {newScene(t).renewal(), func(s *scene) { s.edit = credential("00") }, Deny, ReasonCredential, "", false},
		"renewal: a group more":                 {newScene(t).renewal(), func(s *scene) { s.subject.Groups = []string{"dev", "ops"} }, Deny, ReasonGroups, "ops", false},
		"renewal: a group taken away":           {newScene(t).renewal(), func(s *scene) { s.token().Spec.Groups = nil }, Deny, ReasonGroups, "dev", false},
		"renewal: forged maker":                 {newScene(t).renewal(), forged, Deny, ReasonAttestation, "", false},
		"renewal: horizon passed":               {newScene(t).renewal(), func(s *scene) { s.token().Spec.Horizon = &past }, Deny, ReasonHorizon, "has passed", false},
		"renewal: beyond the horizon":           {newScene(t).renewal(), func(s *scene) { s.token().Spec.Horizon = &hour }, Deny, ReasonHorizon, "1 h; it may ask for 59m0s", false},
		"renewal: horizon far":                  {newScene(t).renewal(), func(s *scene) { s.token().Spec.Horizon = &year }, Approve, ReasonRenewal, "", false},
		"renewal: lost":                         {newScene(t).renewal(), func(s *scene) { s.token().Spec.State = clusterapi.Lost }, Deny, ReasonToken, "", false},
		"renewal: too long":                     {newScene(t).renewal(), func(s *scene) { s.edit = lifetime(365 * 24 * time.Hour) }, Deny, ReasonLifetime, "", false},
		"renewal: usage":                        {newScene(t).renewal(), func(s *scene) { s.edit = usage }, Deny, ReasonPolicy, "server auth", false},
		"renewal: in another's name":            {newScene(t).renewal(), func(s *scene) { s.subject.User = "root" }, Deny, ReasonOwner, "", false},
		"renewal: by break-glass":               {newScene(t).renewal(), func(s *scene) { s.subject.Groups = []string{"kubehsm:break-glass"} }, Leave, ReasonReserved, "", false},
		"renewal: by a token, not a cert":       {newScene(t).renewal(), func(s *scene) { s.attests = nil; s.edit = credential("") }, Person, ReasonForeign, "", true},
		"renewal: not listed":                   {newScene(t).renewal(), func(s *scene) { s.policy.DeskGroups = []string{"ops"} }, Person, ReasonNotForDesk, "dev", true},
		"renewal: not listed, unrostered":       {newScene(t).renewal(), func(s *scene) { s.cluster.tokens, s.policy.DeskGroups = nil, nil }, Person, ReasonNotForDesk, "dev", true},
		"renewal: by the help desk":             {newScene(t).renewal(), func(s *scene) { s.subject.Groups = []string{"kubehsm:helpdesk"} }, Person, ReasonReserved, "an admin", true},
		"renewal: in stock":                     {newScene(t).renewal(), func(s *scene) { s.token().Spec.State = clusterapi.Stock }, Person, ReasonToken, "", true},
		"renewal: another's key, allowed": {newScene(t).renewal(), func(s *scene) {
			s.attests, s.policy.RenewUnrostered, s.token().Spec.Owner = nil, true, "bob"
			s.token().Status.Key, _ = csr.SPKIHash(s.key.Public())
		}, Person, ReasonOwner, "", true},
		"renewal: second name, lost": {newScene(t).renewal(), func(s *scene) {
			s.token().Spec.Owner, s.token().Spec.State = "eve", clusterapi.Lost
		}, Deny, ReasonToken, "lost", false},
		"renewal: of a node's agent": {newScene(t).renewal(), func(s *scene) {
			s.subject.User = "system:agent"
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { o.Spec.Username = "system:agent" }
		}, Leave, ReasonForeign, "", false},
		"renewal: of another program": {newScene(t).renewal(), func(s *scene) {
			s.attests = nil
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { usage(o); o.Annotations = nil }
		}, Person, ReasonForeign, "", true},
		"renewal: not said, key on the roster": {newScene(t).renewal(), func(s *scene) {
			s.attests = nil
			s.token().Status.Key, _ = csr.SPKIHash(s.key.Public())
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { usage(o); o.Annotations = nil }
		}, Deny, ReasonPolicy, "server auth", false},

		"roster: proven":     {newScene(t).rostered(), nil, Approve, ReasonRoster, "1234567", false},
		"roster: the eighth": {newScene(t).rostered(), granted(7), Approve, ReasonRoster, "", false},
		"roster: the ninth":  {newScene(t).rostered(), granted(8), Deny, ReasonTooMany, "has 8 certificates, and may have 8 at a time: the next one of them ends in 1 h", false},
		"roster: approved before": {newScene(t).rostered(), func(s *scene) {
			granted(8)(s)
			s.token().Status.Others[7].Request = "uid-2"
		}, Approve, ReasonRoster, "", false},
		"roster: eight have ended": {newScene(t).rostered(), func(s *scene) {
			granted(8)(s)
			for i := range s.token().Status.Others {
				s.token().Status.Others[i].NotAfter = past
			}
		}, Approve, ReasonRoster, "", false},
		"ticket: the ninth":   {newScene(t).withTicket().rostered(), granted(8), Deny, ReasonTooMany, "", false},
		"renewal: the ninth":  {newScene(t).renewal(), granted(8), Deny, ReasonTooMany, "", false},
		"roster: filed again": {newScene(t).rostered(), func(s *scene) { keyUsed(s) }, Deny, ReasonKeyUsed, "ends in 1 h: its user may renew that, or join with a new key", false},
		"roster: filed again, approved and not issued": {newScene(t).rostered(), func(s *scene) {
			keyUsed(s)
			s.token().Status.Others[0].Certificate, s.token().Status.Others[0].Request = "", "uid-1"
		}, Deny, ReasonKeyUsed, "", false},
		"line: filed again":   {newScene(t).rostered(), func(s *scene) { joinLine(s); keyUsed(s) }, Deny, ReasonKeyUsed, "", false},
		"ticket: used key":    {newScene(t).withTicket().rostered(), keyUsed, Approve, ReasonTicket, "", false},
		"renewal: in time":    {newScene(t).renewal(), func(s *scene) { keyUsed(s); s.since = 23 * time.Hour }, Approve, ReasonRenewal, "", false},
		"renewal: too early":  {newScene(t).renewal(), func(s *scene) { keyUsed(s); s.since = time.Hour }, Deny, ReasonEarly, "renewed in 61 min at the earliest", false},
		"renewal: of another": {newScene(t).renewal(), func(s *scene) { keyUsed(s); s.since, s.of = 23*time.Hour, newKey(t) }, Deny, ReasonKeyUsed, "", false},
		"renewal: not carried": {newScene(t).renewal(), func(s *scene) {
			keyUsed(s)
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { o.Annotations = nil }
		}, Deny, ReasonKeyUsed, "", false},
		"roster: another user":  {newScene(t).rostered(), func(s *scene) { s.subject.User = "eve" }, Deny, ReasonOwner, "", false},
		"roster: another group": {newScene(t).rostered(), func(s *scene) { s.subject.Groups = []string{"admins"} }, Deny, ReasonGroups, "admins", false},
		"roster: not on it":     {newScene(t).rostered(), func(s *scene) { s.serial = 7 }, Person, ReasonUnknown, "7", true},
		"roster: in stock":      {newScene(t).rostered(), func(s *scene) { s.token().Spec.State = clusterapi.Stock }, Person, ReasonToken, "", true},
		"roster: retired":       {newScene(t).rostered(), func(s *scene) { s.token().Spec.State = clusterapi.Retired }, Deny, ReasonToken, "", false},
		"roster: forged maker":  {newScene(t).rostered(), forged, Person, ReasonForeign, "", true},
		"roster: without proof": {newScene(t).rostered(), func(s *scene) { s.attests = nil }, Person, ReasonForeign, "", true},
		"roster: not listed":    {newScene(t).rostered(), func(s *scene) { s.policy.DeskGroups = []string{"d"} }, Person, ReasonNotForDesk, "dev", true},
		"ticket: revoked key":   {newScene(t).withTicket(), revokeKey, Deny, ReasonRevoked, `its key is one of "jane"`, false},
		"renewal: revoked key":  {newScene(t).renewal(), revokeKey, Deny, ReasonRevoked, "revoked in the cluster by hannah: lost", false},
		"roster: revoked key":   {newScene(t).rostered(), revokeKey, Deny, ReasonRevoked, "its key", false},
		"foreign: revoked key":  {newScene(t), func(s *scene) { s.attests = nil; revokeKey(s) }, Deny, ReasonRevoked, "its key", false},
		"renewal: another revoked": {newScene(t).renewal(), func(s *scene) {
			revokeKey(s)
			s.cluster.revoked.Shards[0].Entries[0].Key = strings.Repeat("00", 32)
		}, Approve, ReasonRenewal, "", false},
		"roster: filed by a revoked certificate": {newScene(t).rostered(), func(s *scene) {
			revokeKey(s)
			s.cluster.revoked.Shards[0].Entries[0].Key = ""
			s.edit = credential(s.cluster.revoked.Shards[0].Entries[0].Certificate)
		}, Deny, ReasonRevoked, "it was filed by", false},
		"ticket: list unread":  {newScene(t).withTicket(), unread, Person, ReasonUnreadList, "kubehsm-revoked-1: its list", false},
		"renewal: list unread": {newScene(t).renewal(), unread, Person, ReasonUnreadList, "is not known", false},
		"roster: list unread":  {newScene(t).rostered(), unread, Person, ReasonUnreadList, "is not known", false},
		"roster: revoked key, list unread": {newScene(t).rostered(), func(s *scene) { unread(s); revokeKey(s) }, Deny,
			ReasonRevoked, "its key", false},
		"roster: in stock, list unread": {newScene(t).rostered(), func(s *scene) {
			unread(s)
			s.token().Spec.State = clusterapi.Stock
		}, Person, ReasonToken, "", true},
		"roster: retired, list unread": {newScene(t).rostered(), func(s *scene) {
			unread(s)
			s.token().Spec.State = clusterapi.Retired
		}, Deny, ReasonToken, "", false},
		"foreign: another signer": {newScene(t).rostered(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { o.Spec.SignerName = "a.io/b" }
		}, Leave, ReasonForeign, "", false},
		"foreign: decided already": {newScene(t).rostered(), func(s *scene) { s.edit = denied }, Leave, ReasonForeign, "", false},
		"foreign: unreadable": {newScene(t).rostered(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) { o.Spec.Request = []byte("x") }
		}, Person, ReasonUnreadable, "", true},
		"ticket: too many groups": {newScene(t).withTicket(), func(s *scene) { s.edit = crowded }, Deny, ReasonUnreadable, "65 groups", false},
		"joiner: too many groups": {newScene(t).withTicket(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) {
				crowded(o)
				o.Spec.Username = clusterapi.JoinerUser
			}
		}, Deny, ReasonUnreadable, "65 groups", false},
		"foreign: too many groups": {newScene(t), func(s *scene) { s.edit = crowded }, Person, ReasonUnreadable, "65 groups", true},
		// The API server would read the first of two.
		"foreign: two requests in one": {newScene(t).withTicket(), func(s *scene) {
			s.edit = func(o *certificatesv1.CertificateSigningRequest) {
				o.Spec.Request = slices.Concat(o.Spec.Request, o.Spec.Request)
			}
		}, Person, ReasonUnreadable, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := New(c.scene.policy)
			check(t, err)
			if c.spoil != nil {
				c.spoil(c.scene)
				// The policy may be what is spoilt; the maker that it trusts stays.
				if j, err = New(c.scene.policy); err != nil {
					t.Fatal(err)
				}
			}
			d, err := j.Decide(c.scene.object(), &c.scene.cluster, now)
			if err != nil || d.Verdict != c.want || d.Reason != c.reason || d.AdminOnly != c.admin ||
				!strings.Contains(d.Message, c.says) {
				t.Errorf("%s %s %t %q, %v; want %s %s %t %q", d.Verdict, d.Reason, d.AdminOnly, d.Message, err, c.want, c.reason,
					c.admin, c.says)
			}
			if d.Verdict != Leave && d.Message == "" {
				t.Error("it says nothing")
			}
		})
	}
}

// Nothing is decided on half of the facts.
func TestClusterDown(t *testing.T) {
	for _, s := range []*scene{newScene(t).withTicket(), newScene(t).renewal(), newScene(t).rostered()} {
		s.cluster.down = true
		j, err := New(s.policy)
		check(t, err)
		if d, err := j.Decide(s.object(), &s.cluster, now); !errors.Is(err, errDown) || d.Verdict != "" {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

func TestBadPolicies(t *testing.T) {
	for _, p := range []clusterapi.AttestationPolicy{{Roots: "none"}, {MinFirmware: "five"},
		{Roots: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}} {
		if _, err := New(clusterapi.PolicySpec{Attestation: p}); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// What a person decides counts where a person is to decide, and not in their own case.
func TestRatify(t *testing.T) {
	a := Asked{&csr.RequestInfo{Subject: csr.Subject{User: "jane"}},
		&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: "bob"}}}
	yes := clusterapi.PersonDecision{Approve: true, By: "desk", Message: "seen"}
	unread := Asked{Object: a.Object}
	for _, c := range []struct {
		d    Decision
		by   clusterapi.PersonDecision
		want Verdict
		says string
		of   Asked // a if it is none
	}{
		{Decision{Verdict: Person}, yes, Approve, "seen", Asked{}},
		{Decision{Verdict: Person}, clusterapi.PersonDecision{By: "desk", Message: "who?"}, Deny, "who?", Asked{}},
		{Decision{Verdict: Person, AdminOnly: true}, yes, Person, "admin", Asked{}},
		{Decision{Verdict: Person}, clusterapi.PersonDecision{Approve: true, By: "jane"}, Person, "themselves", Asked{}},
		{Decision{Verdict: Person}, clusterapi.PersonDecision{Approve: true, By: "bob"}, Person, "themselves", Asked{}},
		{Decision{Verdict: Deny, Message: "forged"}, yes, Deny, "forged", Asked{}},
		{Decision{Verdict: Person}, yes, Person, "admin", unread},
		{Decision{Verdict: Person}, clusterapi.PersonDecision{By: "desk", Message: "who?"}, Deny, "decided by desk", unread},
	} {
		if got := c.d.Ratify(c.by, cmp.Or(c.of, a)); got.Verdict != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%+v by %+v is %s %q", c.d, c.by, got.Verdict, got.Message)
		}
	}
	for _, reason := range []string{ReasonTicket, ReasonRenewal, ReasonRoster} {
		yes.Reason = reason
		if got := (Decision{Verdict: Person}).Ratify(yes, a); got.Reason != ReasonPerson {
			t.Errorf("a person's %s is approved as %s", reason, got.Reason)
		}
	}
}

func mustCA(t *testing.T) *vcard.CA {
	ca, err := vcard.NewCA("the maker") // of the same name
	check(t, err)
	return ca
}

func lifetime(d time.Duration) func(*certificatesv1.CertificateSigningRequest) {
	return func(o *certificatesv1.CertificateSigningRequest) {
		seconds := int32(d / time.Second)
		if o.Spec.ExpirationSeconds = &seconds; d == 0 {
			o.Spec.ExpirationSeconds = nil
		}
	}
}

func used(uid types.UID) func(*scene) {
	return func(s *scene) {
		s.token().Status.Tickets = []clusterapi.UsedTicket{{ID: "other1", Request: "x"}, {ID: "abcdef", Request: uid}}
	}
}

func credential(hash string) func(*certificatesv1.CertificateSigningRequest) {
	return func(o *certificatesv1.CertificateSigningRequest) {
		o.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hash}}
	}
}

// granted has the scene's token have n certificates of other keys.
func granted(n int) func(*scene) {
	return func(s *scene) {
		for i := range n {
			s.token().Status.Others = append(s.token().Status.Others, clusterapi.TokenCertificate{Certificate: fmt.Sprint(i),
				Key: fmt.Sprint("key-", i), NotAfter: metav1.NewTime(now.Add(time.Duration(i+1) * time.Hour))})
		}
	}
}

// keyUsed has the scene's key have a certificate.
func keyUsed(s *scene) {
	granted(1)(s)
	hash, err := csr.SPKIHash(s.key.Public())
	check(s.t, err)
	s.token().Status.Others[0].Key = hash
}

// crowded has a request ask for more groups than any may.
func crowded(o *certificatesv1.CertificateSigningRequest) {
	name := pkix.Name{CommonName: "jane"}
	for i := range csr.MaxGroups + 1 {
		name.Organization = append(name.Organization, fmt.Sprint("group-", i))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
	if err != nil {
		panic(err)
	}
	o.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func usage(o *certificatesv1.CertificateSigningRequest) {
	o.Spec.Usages = slices.Concat(o.Spec.Usages, []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth})
}

func denied(o *certificatesv1.CertificateSigningRequest) {
	o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
}
