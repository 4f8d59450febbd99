package judge

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Cluster is what a judge asks of the cluster. Errors end the judgement: nothing is
// decided on half of the facts.
type Cluster interface {
	// Token is the roster's entry for a serial number, nil if there is none.
	Token(serial string) (*clusterapi.HardwareToken, error)
	// TokenWithKey is the entry whose key has this SHA-256, whoever owns it, nil if there is none.
	TokenWithKey(spkiHash string) (*clusterapi.HardwareToken, error)
	// Others are the other requests that the same requester has filed.
	Others(requester string, except types.UID) ([]Other, error)
	// Escalates says which binding lets the subject take the rights of others, "" if none.
	Escalates(csr.Subject) (string, error)
}

// Other is a request beside the one that is judged.
type Other struct {
	UID types.UID
	// Name is for people.
	Name    string
	Created time.Time
	// Version is the resource version, by which requests of one second are told apart
	// while nobody has decided on them.
	Version          uint64
	Denied, Approved bool
}

// Verdict is what becomes of a request.
type Verdict string

// The verdicts. A request that is none of the approver's business is left alone.
const (
	Approve Verdict = "Approve"
	Deny    Verdict = "Deny"
	Person  Verdict = "Person"
	Leave   Verdict = "Leave"
)

// Decision is the verdict on a request.
type Decision struct {
	Verdict
	// Reason is one CamelCase word, of a small set; Message says it in words, for the
	// requester to read.
	Reason, Message string
	// AdminOnly: where a person decides, the help desk may not approve it. That is the rule:
	// the help desk may where the bounds were kept and the rights of the subject looked up.
	AdminOnly bool
	// Ticket is the ID of the ticket that it was filed with, Terms what that allows;
	// nil if there is none or nobody knows.
	Ticket string
	Terms  *ticket.Terms
	// Statement is what the attestation proves, nil if nothing.
	Statement *attest.Statement
	// Token is the roster's entry that the verdict rests on, nil if there is none.
	Token *clusterapi.HardwareToken
}

// Judge judges by a policy.
type Judge struct {
	policy   clusterapi.PolicySpec
	verifier attest.Verifier
	firmware []int
}

// New makes a judge. The error is that of a policy that cannot be read.
func New(policy clusterapi.PolicySpec) (*Judge, error) {
	j := &Judge{policy: policy}
	for block, rest := pem.Decode([]byte(policy.Attestation.Roots)); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the policy's attestation roots: %w", err)
		}
		j.verifier.Roots = append(j.verifier.Roots, root)
	}
	if policy.Attestation.Roots != "" && len(j.verifier.Roots) == 0 {
		return nil, errors.New("the policy's attestation roots hold no PEM certificate")
	}
	var err error
	if j.firmware, err = version(policy.Attestation.MinFirmware); err != nil {
		return nil, fmt.Errorf("the policy's lowest firmware: %w", err)
	}
	return j, nil
}

// The reasons of decisions: labels of metrics, so there are few.
const (
	ReasonTicket      = "TicketProven"
	ReasonRenewal     = "SelfRenewal"
	ReasonRoster      = "OnRoster"
	ReasonPerson      = "ByPerson"
	ReasonNoPolicy    = "NoPolicy"
	ReasonUnreadable  = "Unreadable"
	ReasonOdd         = "Odd"
	ReasonReserved    = "ReservedName"
	ReasonTerms       = "NotAsTicket"
	ReasonTicketUsed  = "TicketUsed"
	ReasonAttestation = "AttestationInvalid"
	ReasonUnproven    = "NotProven"
	ReasonPolicy      = "AgainstPolicy"
	ReasonLifetime    = "TooLong"
	ReasonPowerful    = "Powerful"
	ReasonToken       = "TokenNotInUse"
	ReasonOwner       = "NotTheOwner"
	ReasonGroups      = "GroupsAdded"
	ReasonHorizon     = "HorizonPassed"
	ReasonUnknown     = "NotOnRoster"
	ReasonCredential  = "OtherCredential"
	ReasonForeign     = "Foreign"
)

// The prefixes of names that are not for people to have.
const (
	systemPrefix  = "system:"
	kubehsmPrefix = "kubehsm:" // break-glass among them, on which a second person decides
)

// trial is the judgement of one request.
type trial struct {
	*Judge
	Asked
	Decision
	cluster Cluster
	now     time.Time
	// proof is why there is no statement.
	proof error
}

// Decide judges a request at now. Nothing but what is proven is approved, and what is
// denied is one of ours: filed with a ticket, by the holder of the certificate that it
// renews, or for an attested key of the roster.
func (j *Judge) Decide(
	obj *certificatesv1.CertificateSigningRequest,
	cluster Cluster,
	now time.Time,
) (Decision, error) {
	t := &trial{Judge: j, cluster: cluster, now: now}
	if obj.Spec.SignerName != csr.ClientSigner || csr.StateOf(obj).State != csr.Pending {
		return t.says(Leave, ReasonForeign, "")
	}
	var err error
	if t.Asked, err = Read(obj); err != nil {
		return t.says(Person, ReasonUnreadable, "the request cannot be read: "+err.Error())
	}
	if slices.ContainsFunc(t.Subject.Groups, func(g string) bool { return strings.HasPrefix(g, kubehsmPrefix) }) &&
		!t.withTicket() {
		return t.says(Leave, ReasonReserved, "")
	}
	statement, err := t.Attested(j.verifier)
	if t.proof = err; err == nil {
		t.Statement = &statement
	}
	switch {
	case t.withTicket():
		return t.byTicket()
	case obj.Spec.Username != t.Subject.User:
		return t.byRoster()
	case strings.HasPrefix(obj.Spec.Username, systemPrefix):
		return t.says(Leave, ReasonForeign, "") // a part of the cluster renews its own
	}
	own, err := ours(t)
	switch {
	case err != nil:
		return t.Decision, err
	case own:
		return t.renewal()
	default:
		return t.byRoster()
	}
}

// ours tells whether kubehsm filed what its user asks for themselves with a certificate:
// other programs renew certificates too.
func ours(t *trial) (bool, error) {
	if revocation.Used(t.Object.Spec.Extra) == "" {
		return false, nil
	}
	if _, ok := t.Object.Annotations[clusterapi.PresentCertificate]; ok || !errors.Is(t.proof, attest.ErrNone) {
		return true, nil
	}
	token, err := t.cluster.TokenWithKey(t.SPKIHash)
	return token != nil, err
}

// says returns a verdict. What it leaves to a person is for an admin, see [trial.desk].
func (t *trial) says(v Verdict, reason, message string) (Decision, error) {
	t.Verdict, t.Reason, t.Message, t.AdminOnly = v, reason, message, v == Person
	return t.Decision, nil
}

// desk leaves the request to a person, who may be of the help desk. It comes after
// [trial.bounds] and [trial.powerful].
func (t *trial) desk(reason, message string) (Decision, error) {
	t.Verdict, t.Reason, t.Message, t.AdminOnly = Person, reason, message, false
	return t.Decision, nil
}

// withTicket tells whether it was filed with a help desk's ticket.
func (t *trial) withTicket() bool {
	id, ok := strings.CutPrefix(t.Object.Spec.Username, bootstraptoken.UserPrefix)
	if ok = ok && slices.Contains(t.Object.Spec.Groups, ticket.Group); ok {
		t.Ticket = id
	}
	return ok
}

// byTicket judges what was filed with a ticket. The API server wrote the ticket's terms
// on the request, with the groups of its token.
func (t *trial) byTicket() (Decision, error) {
	terms, err := ticket.TermsOf(t.Object.Spec.Groups)
	switch {
	case errors.Is(err, ticket.ErrNoTerms):
		return t.says(Person, ReasonTerms, "what its ticket allows is not known: an earlier kubehsm made it")
	case err != nil:
		return t.says(Deny, ReasonTerms, "the terms of its ticket were not written by kubehsm: "+err.Error())
	}
	t.Terms = &terms
	if wrong := t.Mismatches(terms); len(wrong) > 0 {
		return t.says(Deny, ReasonTerms, strings.Join(wrong, "; "))
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if t.Statement == nil {
		return t.unprovenTicket(terms)
	}
	if wrong := KeyMismatches(terms, *t.Statement); len(wrong) > 0 {
		return t.says(Deny, ReasonTerms, strings.Join(wrong, "; "))
	}
	if d, done := t.device(); done {
		return d, nil
	}
	if t.Token, err = t.cluster.Token(t.Statement.Serial); err != nil {
		return t.Decision, err
	}
	if t.Token != nil {
		if d, done := t.inUse(); done {
			return d, nil
		}
		if owner := t.Token.Spec.Owner; owner != "" && owner != t.Subject.User {
			return t.says(Deny, ReasonOwner, notOwned(t))
		}
	}
	if d, done, err := t.used(); done || err != nil {
		return d, err
	}
	if d, done, err := t.powerful(); done || err != nil {
		return d, err
	}
	if terms.Serial == "" {
		return t.desk(ReasonUnproven,
			"its ticket names no token: nothing proves whose key this is; have the words read by the person")
	}
	return t.says(Approve, ReasonTicket, "the key is proven to be in the token that its ticket names, "+terms.Serial)
}

// unprovenTicket is what becomes of a key that nothing proves.
func (t *trial) unprovenTicket(terms ticket.Terms) (Decision, error) {
	none := errors.Is(t.proof, attest.ErrNone)
	switch {
	case terms.Policy != 0 || !none && terms.Serial != "":
		return t.says(
			Deny,
			ReasonAttestation,
			fmt.Sprintf("its ticket asks for a key that is attested, which nothing proves: %v", t.proof),
		)
	case !none && !errors.Is(t.proof, attest.ErrUnknownIssuer):
		return t.says(Deny, ReasonAttestation, "its attestation is not valid: "+t.proof.Error())
	}
	if d, done, err := t.used(); done || err != nil {
		return d, err
	}
	if d, done, err := t.powerful(); done || err != nil {
		return d, err
	}
	return t.desk(ReasonUnproven,
		fmt.Sprintf("nothing proves where its key is (%v): have the words read by the person", t.proof))
}

// used tells whether the ticket was good for another request already. The one that was
// filed first has it, but for one whose key is proven to be in the ticket's token: no thief
// of the ticket gets in the way of that. Of two such requests the first approved has it.
func (t *trial) used() (Decision, bool, error) {
	uid, proven := t.Object.UID, t.Statement != nil && t.Terms.Serial != ""
	if t.Token != nil {
		for _, u := range t.Token.Status.Tickets {
			if u.ID == t.Ticket && u.Request != uid {
				d, err := t.says(Deny, ReasonTicketUsed, "its ticket was used for another request")
				return d, true, err
			}
		}
	}
	others, err := t.cluster.Others(t.Object.Spec.Username, uid)
	if err != nil {
		return t.Decision, true, err
	}
	mine, err := strconv.ParseUint(t.Object.ResourceVersion, 10, 64)
	if err != nil {
		return t.Decision, true, fmt.Errorf("the version of request %s: %w", t.Object.Name, err)
	}
	for _, o := range others {
		first := o.Created.Before(t.Object.CreationTimestamp.Time) ||
			o.Created.Equal(t.Object.CreationTimestamp.Time) && o.Version < mine
		if o.Approved || first && !o.Denied && !proven {
			d, err := t.says(Deny, ReasonTicketUsed, "its ticket has filed another request before: "+o.Name)
			return d, true, err
		}
	}
	return t.Decision, false, nil
}

// renewal judges what was filed with a certificate of the same user.
func (t *trial) renewal() (Decision, error) {
	if d, done := t.client(Deny); done {
		return d, nil
	}
	for _, g := range t.Subject.Groups {
		if !slices.Contains(t.Object.Spec.Groups, g) {
			return t.says(Deny, ReasonGroups, fmt.Sprintf("it asks for the group %q, which its requester is not in", g))
		}
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if d, done := t.invalidAttestation(); done {
		return d, nil
	}
	present, err := t.present()
	if err != nil {
		return t.says(Deny, ReasonCredential, err.Error())
	}
	same := present != nil && hsm.SameKey(present.PublicKey, t.PublicKey)
	if t.Statement != nil {
		if d, done := t.device(); done {
			return d, nil
		}
		t.Token, err = t.cluster.Token(t.Statement.Serial)
	} else {
		t.Token, err = t.cluster.TokenWithKey(t.SPKIHash)
	}
	if err != nil {
		return t.Decision, err
	}
	if t.Token != nil {
		if d, done := t.given(); done {
			return d, nil
		}
	}
	if t.Statement == nil && !same {
		return t.says(Person, ReasonUnproven,
			"its key is not attested, and not that of the certificate that it was filed with")
	}
	if d, done, err := t.powerful(); done || err != nil {
		return d, err
	}
	if t.Token == nil && !(same && t.policy.RenewUnrostered) {
		return t.desk(ReasonUnknown, "its key is in no token of the roster: nothing says how long it may renew itself")
	}
	return t.says(Approve, ReasonRenewal, "its user renews a certificate that is still valid")
}

// present is the certificate that the request says it was filed with; nil if it says
// none, an error if it was filed with another.
func (t *trial) present() (*x509.Certificate, error) {
	text, ok := t.Object.Annotations[clusterapi.PresentCertificate]
	if !ok {
		return nil, nil
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the certificate that it carries is not in base64")
	}
	if sum := sha256.Sum256(der); hex.EncodeToString(sum[:]) != revocation.Used(t.Object.Spec.Extra) {
		return nil, errors.New("the certificate that it carries is not the one that it was filed with")
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate that it carries: %w", err)
	}
	return cert, nil
}

// byRoster judges what anybody filed: the attestation says which token it is, the
// roster whose.
func (t *trial) byRoster() (Decision, error) {
	if t.Statement == nil {
		if d, done := t.invalidAttestation(); done && strings.HasPrefix(t.Object.Spec.Username, bootstraptoken.UserPrefix) {
			return d, nil
		}
		return t.says(Person, ReasonForeign, "it was filed without a ticket, and nothing proves where its key is")
	}
	token, err := t.cluster.Token(t.Statement.Serial)
	switch {
	case err != nil:
		return t.Decision, err
	case token == nil:
		return t.says(Person, ReasonUnknown, "its token "+t.Statement.Serial+" is not on the roster")
	}
	t.Token = token
	if d, done := t.client(Deny); done {
		return d, nil
	}
	if d, done := t.given(); done {
		return d, nil
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if d, done := t.device(); done {
		return d, nil
	}
	if d, done, err := t.powerful(); done || err != nil {
		return d, err
	}
	return t.says(Approve, ReasonRoster, "the key is proven to be in the token "+token.Name+", which is its user's")
}

// client refuses what a client's certificate needs not.
func (t *trial) client(v Verdict) (Decision, bool) {
	if names := t.AlternativeNames(); len(names) > 0 {
		d, _ := t.says(v, ReasonPolicy, "it asks for alternative names: "+strings.Join(names, ", "))
		return d, true
	}
	if u := t.otherUsages(); len(u) > 0 {
		d, _ := t.says(v, ReasonPolicy, fmt.Sprintf("it asks for the usage %q: only clients are approved", u[0]))
		return d, true
	}
	return t.Decision, false
}

// bounds are what no ticket and no roster gives.
func (t *trial) bounds() (Decision, bool) {
	refuse := func(v Verdict, reason, message string) (Decision, bool) {
		d, _ := t.says(v, reason, message)
		return d, true
	}
	for _, name := range append([]string{t.Subject.User}, t.Subject.Groups...) {
		if strings.HasPrefix(name, systemPrefix) || strings.HasPrefix(name, kubehsmPrefix) {
			return refuse(Deny, ReasonReserved, fmt.Sprintf("%q is not for people: it begins with system: or kubehsm:", name))
		}
	}
	if len(t.Oddities) > 0 {
		return refuse(Person, ReasonOdd, strings.Join(t.Oddities, "; "))
	}
	for _, g := range t.Subject.Groups {
		if len(t.policy.Groups) > 0 && !slices.ContainsFunc(t.policy.Groups, func(p string) bool { return matches(p, g) }) {
			return refuse(Deny, ReasonPolicy, fmt.Sprintf("the policy does not give the group %q", g))
		}
	}
	if limit := t.policy.MaxLifetime.Duration; limit > 0 && t.longer(limit) {
		return refuse(Deny, ReasonLifetime,
			fmt.Sprintf("it asks for %s, the policy gives %s at most", t.lifetimeWords(), span.Of(limit)))
	}
	return t.Decision, false
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// invalidAttestation denies what says that it is attested, and is not.
func (t *trial) invalidAttestation() (Decision, bool) {
	if t.proof == nil || errors.Is(t.proof, attest.ErrNone) {
		return t.Decision, false
	}
	d, _ := t.says(Deny, ReasonAttestation, "its attestation is not valid: "+t.proof.Error())
	return d, true
}

// device compares the attested key with the policy.
func (t *trial) device() (Decision, bool) {
	s, p := t.Statement, t.policy.Attestation
	var wrong string
	has, err := version(s.Firmware)
	switch {
	case s.Serial == "":
		wrong = "its attestation tells no serial number"
	case len(t.firmware) > 0 && (err != nil || slices.Compare(has, t.firmware) < 0):
		wrong = fmt.Sprintf("the firmware of its token is %q, the policy asks for %s", s.Firmware, p.MinFirmware)
	case p.FIPS && !s.FIPS:
		wrong = "its token is not of a FIPS series"
	case p.PIN == "once" && s.PIN < hsm.PINOnce, p.PIN == "always" && s.PIN != hsm.PINAlways:
		wrong = fmt.Sprintf("its key has PIN %s, the policy asks for %s", s.PIN, p.PIN)
	case p.Touch == "cached" && s.Touch < hsm.TouchCached, p.Touch == "always" && s.Touch != hsm.TouchAlways:
		wrong = fmt.Sprintf("its key has touch %s, the policy asks for %s", s.Touch, p.Touch)
	default:
		return t.Decision, false
	}
	d, _ := t.says(Deny, ReasonPolicy, wrong)
	return d, true
}

// version reads numbers with dots between them; "" is none.
func version(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var v []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no version", text)
		}
		v = append(v, n)
	}
	return v, nil
}

func notOwned(t *trial) string {
	return fmt.Sprintf("the token %s is not that of %q, says the roster", t.Token.Name, t.Subject.User)
}

// given refuses what the roster does not give to the token's owner.
func (t *trial) given() (Decision, bool) {
	refuse := func(reason, message string) (Decision, bool) {
		d, _ := t.says(Deny, reason, message)
		return d, true
	}
	if t.Token.Spec.Owner != t.Subject.User {
		return refuse(ReasonOwner, notOwned(t))
	}
	for _, g := range t.Subject.Groups {
		if !slices.Contains(t.Token.Spec.Groups, g) {
			return refuse(ReasonGroups, fmt.Sprintf("it asks for the group %q, which the roster does not give", g))
		}
	}
	return t.inUse()
}

// inUse refuses what the roster says is over.
func (t *trial) inUse() (Decision, bool) {
	refuse := func(v Verdict, reason, message string) (Decision, bool) {
		d, _ := t.says(v, reason, message)
		return d, true
	}
	spec := t.Token.Spec
	switch {
	case spec.State == clusterapi.Lost || spec.State == clusterapi.Retired:
		return refuse(Deny, ReasonToken,
			fmt.Sprintf("the token %s is %s, says the roster", t.Token.Name, strings.ToLower(string(spec.State))))
	case spec.State == clusterapi.Stock && t.Ticket == "":
		return refuse(
			Person,
			ReasonToken,
			fmt.Sprintf("the token %s is in stock, says the roster: nobody has it", t.Token.Name),
		)
	case spec.Horizon == nil:
		return t.Decision, false
	}
	switch left := spec.Horizon.Sub(t.now); {
	case left <= 0:
		return refuse(Deny, ReasonHorizon, "the time of the token "+t.Token.Name+" is over, says the roster")
	case t.longer(left):
		return refuse(
			Deny,
			ReasonHorizon,
			fmt.Sprintf("it asks for %s, the time of the token %s is over in %s", t.lifetimeWords(),
				t.Token.Name, span.Of(left.Truncate(time.Minute))),
		)
	}
	return t.Decision, false
}

// powerful leaves to a person what would let its holder take the rights of others.
func (t *trial) powerful() (Decision, bool, error) {
	why, err := t.cluster.Escalates(t.Subject)
	if err != nil || why == "" {
		return t.Decision, err != nil, err
	}
	message := "its holder could take the rights of others: " + why
	d, err := t.says(Person, ReasonPowerful, message)
	if t.policy.Powerful == clusterapi.Desk {
		d, err = t.desk(ReasonPowerful, message)
	}
	return d, true, err
}

// Ratify is the verdict on a request that a person is to decide on, by is whom, once
// they have: nobody decides on what they asked for themselves, and the help desk approves
// nothing that could not be read.
func (d Decision) Ratify(by clusterapi.PersonDecision, a Asked) Decision {
	reason, message := by.Reason, strings.TrimSpace(fmt.Sprintf("%s (decided by %s)", by.Message, by.By))
	if BySelf(reason) {
		reason = ReasonPerson
	}
	switch {
	case d.Verdict != Person:
		return d
	case !by.Approve:
		d.Verdict, d.Reason, d.Message = Deny, reason, message
	case d.AdminOnly, a.RequestInfo == nil:
		d.AdminOnly = true
		d.Message = "the help desk cannot approve it, an admin can: " + d.Message
	case by.By == a.Object.Spec.Username, by.By == a.Subject.User:
		d.Message = "nobody approves what they ask for themselves: " + d.Message
	default:
		d.Verdict, d.Reason, d.Message = Approve, reason, message
	}
	return d
}

// BySelf tells whether a condition with that reason was set for what is proven, without a person:
// the cluster approves renewals by itself, too.
func BySelf(reason string) bool {
	return slices.Contains([]string{ReasonTicket, ReasonRenewal, ReasonRoster}, reason)
}
