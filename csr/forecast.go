package csr

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// Prospect is a request that may be filed.
type Prospect struct {
	Subject    Subject
	SignerName string // empty means ClientSigner
	// Key is the key asked for, nil if it is still to be made.
	Key crypto.PublicKey
	// Usages asked for; nil means ClientUsages.
	Usages []certificatesv1.KeyUsage
	// Expiration asked for; 0 leaves it to the signer.
	Expiration time.Duration
	// Extension: the request carries an extension of ours, an attestation.
	Extension bool
	// Accepted is what the API server says of client certificates, nil if unknown.
	Accepted *Accepted
}

// maxSkew is how far two clocks may differ before it is worth a word: signers
// backdate by 5 minutes.
const maxSkew = time.Minute

// Forecast says what is likely to become of the request p, before it is filed:
// from the signer's documented rules, from what the cluster answers, and from
// what became of earlier requests. Nothing is changed in the cluster. What
// cannot be found out is Unknown; the error is only ctx's.
func (c *Client) Forecast(ctx context.Context, p Prospect) ([]Point, error) {
	if p.SignerName == "" {
		p.SignerName = ClientSigner
	}
	if p.Usages == nil {
		p.Usages = ClientUsages(p.Key)
	}
	f := forecast{c: c, plane: c.ControlPlane(), rights: c.Rights(), p: p}
	f.ask(ctx)
	f.create(ctx)
	f.signer()
	f.lifetime()
	f.extension()
	f.issues()
	f.issuer()
	f.clock()
	f.identity()
	return f.points, ctx.Err()
}

type forecast struct {
	c      *Client
	plane  ControlPlane
	rights Rights
	p      Prospect

	down     error  // why the server cannot be asked at all
	version  string // gitVersion, "" if unknown
	date     time.Time
	asked    time.Time // this machine's clock when the server said date
	earlier  []certificatesv1.CertificateSigningRequest
	listed   error
	me       Identity
	whoErr   error
	manager  managerFlags
	managed  bool
	roots    *x509.CertPool
	bindings Grants
	bindErr  error

	points []Point
}

func (f *forecast) say(id string, v Verdict, evidence, format string, args ...any) {
	f.points = append(f.points, Point{ID: id, Verdict: v, Reason: fmt.Sprintf(format, args...), Evidence: evidence})
}

// ask gathers the evidence.
func (f *forecast) ask(ctx context.Context) {
	f.version, f.date, f.down = f.plane.version(ctx)
	if f.asked = time.Now(); f.down != nil {
		f.listed, f.whoErr, f.bindErr = f.down, f.down, f.down
		return // one timeout is enough
	}
	list, err := f.c.Page(ctx, ListOptions{SignerName: f.p.SignerName})
	if f.listed = err; err == nil {
		f.earlier = list.Items
	}
	f.me, f.whoErr = f.rights.WhoAmI(ctx)
	f.manager, f.managed = f.plane.managerFlags(ctx)
	f.roots = f.plane.AcceptedRoots(ctx)
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	f.bindings, f.bindErr = f.rights.GrantsOf(ctx, f.p.Subject)
}

func (f *forecast) create(ctx context.Context) {
	var missing []Rule
	err := f.down
	if err == nil {
		missing, err = f.rights.MayRequest(ctx)
	}
	const asked = "SelfSubjectAccessReview"
	switch {
	case err != nil:
		f.say("create", Unknown, "", "the cluster cannot be asked what you may do: %v", err)
	case slices.ContainsFunc(missing, func(r Rule) bool { return r.Verb == "create" }):
		f.say("create", Warn, asked, "you may not file requests: the request will be printed for an admin to file")
	case len(missing) > 0:
		f.say("create", Warn, asked, "you may file requests, but not %s", words(missing))
	default:
		f.say("create", OK, asked, "you may file requests and follow them")
	}
}

func words(rules []Rule) string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = r.String()
	}
	return strings.Join(out, ", ")
}

// signer applies the rules of the signer to usages, subject and algorithm.
func (f *forecast) signer() {
	if err := validateSigner(f.p.SignerName); err != nil {
		f.say("signer", Refuse, "Kubernetes API reference, spec.signerName", "%v", err)
		return
	}
	rule, known := signerRules(f.p.SignerName)
	switch {
	case f.p.SignerName == "kubernetes.io/legacy-unknown":
		f.say("signer", Refuse, documented, "%s is not served by certificates.k8s.io/v1", f.p.SignerName)
		return
	case !known && strings.HasPrefix(f.p.SignerName, "kubernetes.io/"):
		f.say("signer", Warn, documented, "Kubernetes documents no signer of this name")
		return
	case !known:
		f.say("signer", Unknown, "",
			"%s is not Kubernetes's own: its rules for usages, subjects, lifetimes and keys are not known here", f.p.SignerName)
		return
	case !slices.Contains(f.p.Usages, certificatesv1.UsageClientAuth) ||
		slices.Contains(rule.needs, certificatesv1.UsageServerAuth):
		f.say("signer", Refuse, documented, "%s signs no client certificates", f.p.SignerName)
		return
	}
	f.say("signer", OK, documented, "%s signs client certificates, once somebody has approved", f.p.SignerName)
	if problem := rule.usageProblem(f.p.Usages, f.p.Key); problem != "" {
		f.say("usages", Refuse, documented, "%s", problem)
	} else {
		f.say("usages", OK, documented, "it signs for %s", usageWords(f.p.Usages))
	}
	f.subject(rule)
	f.algorithm()
}

func usageWords(list []certificatesv1.KeyUsage) string {
	out := make([]string, len(list))
	for i, u := range list {
		out[i] = string(u)
	}
	return strings.Join(out, ", ")
}

func (f *forecast) subject(rule signerRule) {
	var invalid *InputError
	switch problem := rule.subject(f.p.Subject); {
	case problem != "":
		f.say("subject", Refuse, documented, "%s", problem)
	case errors.As(f.p.Subject.Validate(f.p.SignerName), &invalid):
		f.say("subject", Refuse, "the names themselves", "%v", invalid)
	case strings.HasPrefix(f.p.Subject.User, "system:") ||
		slices.ContainsFunc(f.p.Subject.Groups, func(g string) bool { return strings.HasPrefix(g, "system:") }):
		f.say("subject", Warn, "Kubernetes documentation, RBAC: names with the prefix system: are reserved",
			"it asks for one of Kubernetes's own names: approvers may refuse it")
	default:
		f.say("subject", OK, documented, "user and groups can be asked for")
	}
}

func (f *forecast) algorithm() {
	if f.p.Key == nil {
		return
	}
	if _, err := signatureAlgorithm(f.p.Key); err != nil {
		f.say("algorithm", Refuse, "the API server's TLS (Go crypto/x509)", "%v", err)
		return
	}
	f.say("algorithm", OK, "the API server's TLS (Go crypto/x509)", "%s keys can sign in", KeyAlgorithm(f.p.Key))
}

// lifetime compares what is asked for with the controller's cap, as far as one
// can be seen: in its command line, or in what it made of earlier requests.
func (f *forecast) lifetime() {
	most, evidence := f.longest()
	switch asked := f.p.Expiration; {
	case asked != 0 && asked < MinExpiration:
		f.say("lifetime", Refuse, "Kubernetes API reference, spec.expirationSeconds", "%s is shorter than %s",
			span.Of(asked), span.Of(MinExpiration))
	case asked != 0 && evidence != "" && asked > most:
		f.say("lifetime", Warn, evidence, "the signer's maximum is %s: the certificate will expire sooner than requested",
			span.Of(most))
	case asked != 0 && evidence != "":
		f.say("lifetime", OK, evidence, "the signer's maximum is %s", span.Of(most))
	case evidence != "":
		f.say("lifetime", OK, evidence, "the signer decides: %s at most", span.Of(most))
	case asked > defaultCap:
		f.say("lifetime", Unknown, "",
			"the signer's maximum is not known; the controller's default is %s, and it shortens what exceeds that",
			span.Of(defaultCap))
	default:
		f.say("lifetime", Unknown, "", "the signer's maximum is not known; the issued certificate shows when it expires")
	}
}

// defaultCap is kube-controller-manager's --cluster-signing-duration.
const defaultCap = 365 * 24 * time.Hour

// longest is the signer's limit, if there is evidence of one.
func (f *forecast) longest() (time.Duration, string) {
	if _, own := signerRules(f.p.SignerName); own && f.managed && f.manager.duration > 0 {
		return f.manager.duration, f.manager.evidence
	}
	for i := range f.earlier {
		obj := &f.earlier[i]
		cert, err := ParseCertificate(obj.Status.Certificate)
		if err != nil || obj.Spec.ExpirationSeconds != nil && shortfall(obj, cert.Leaf) == 0 {
			continue // full lifetime: the certificate does not show the signer's limit
		}
		lived := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore).Round(time.Minute)
		return lived, "request " + obj.Name + " was given no more"
	}
	return 0, ""
}

func (f *forecast) extension() {
	if !f.p.Extension {
		return
	}
	if _, own := signerRules(f.p.SignerName); own {
		f.say("extension", OK, documented, "the signer drops the attestation from the certificate; approvers see it")
		return
	}
	f.say("extension", Unknown, "",
		"a signer may reject extensions that it does not know: if so, leave the attestation out")
}

// issues tells whether this cluster issues what was approved at all. That it
// does not counts before what became of other requests: anybody who may write
// their status can make one look signed.
func (f *forecast) issues() {
	if why, evidence := f.plane.never(f.p.SignerName, f.version, f.managed); why != "" {
		f.say("issues", Refuse, evidence, "%s", why)
		return
	}
	var stalled string
	for i := range f.earlier {
		obj := &f.earlier[i]
		switch s := StateOf(obj); {
		case s.State == Issued:
			f.say("issues", OK, "request "+obj.Name+" was signed", "this cluster signs for %s", f.p.SignerName)
			return
		case s.State == Approved && !s.Since.IsZero() && time.Since(s.Since) > 10*time.Minute:
			stalled = obj.Name
		}
	}
	if stalled != "" {
		f.say("issues", Warn, "request "+stalled+" was approved and never signed", "nothing seems to sign for %s here",
			f.p.SignerName)
		return
	}
	if _, own := signerRules(f.p.SignerName); !own {
		f.say("issues", Unknown, "", "whether anything signs for %s here shows only when a request is approved",
			f.p.SignerName)
		return
	}
	if f.managed && f.manager.signs {
		f.say("issues", OK, f.manager.evidence, "the controller manager holds a signing key")
		return
	}
	if k, evidence := kindOf(f.version, f.plane.hostname()); evidence != "" && k.verdict != Refuse {
		f.say("issues", k.verdict, evidence, "%s: %s", k.name, k.reason)
		return
	}
	f.say("issues", Unknown, "", "whether this cluster issues client certificates cannot be seen from here")
}

func (f *forecast) clock() {
	if f.date.IsZero() {
		f.say("clock", Unknown, "", "the server does not tell its time")
		return
	}
	skew := f.asked.Sub(f.date)
	evidence := "the server's Date header"
	switch {
	case skew.Abs() <= maxSkew:
		f.say("clock", OK, evidence, "this machine's clock agrees with the server's")
	case skew > 0:
		f.say("clock", Warn, evidence, "this machine's clock is %v ahead of the server's", skew.Round(time.Second))
	default:
		f.say("clock", Warn, evidence,
			"this machine's clock is %v behind the server's: certificates may seem not to be valid yet",
			-skew.Round(time.Second))
	}
}

// identity tells whether the name is somebody's already.
func (f *forecast) identity() {
	user := f.p.Subject.User
	if f.whoErr == nil && f.me.User == user {
		f.say("identity", OK, "SelfSubjectReview", "you are %s already", user)
		return
	}
	for i := range f.earlier {
		obj := &f.earlier[i]
		cert, err := ParseCertificate(obj.Status.Certificate)
		if err != nil || cert.Leaf.Subject.CommonName != user || !cert.Leaf.NotAfter.After(time.Now()) {
			continue
		}
		if f.whoErr == nil && obj.Spec.Username == f.me.User {
			f.say("identity", OK, "request "+obj.Name, "you asked for a certificate of this name before")
			return
		}
		f.say("identity", Warn, "request "+obj.Name, "%s holds a valid certificate of this name: is %s somebody else?",
			obj.Spec.Username, user)
		return
	}
	for _, g := range f.bindings.List {
		if strings.Contains(g.To, "user "+user) {
			f.say("identity", Warn, "binding "+g.Binding, "the name has rights already: is %s somebody else?", user)
			return
		}
	}
	switch {
	case f.listed != nil, f.bindErr != nil, len(f.bindings.Unknown) > 0:
		f.say("identity", Unknown, "", "whether the name is somebody's already cannot be seen with your rights")
	default:
		f.say("identity", OK, "role bindings and the requests that are still there",
			"nobody else seems to have the name %s", user)
	}
}

// issuer compares who signed earlier requests with what the API server accepts.
func (f *forecast) issuer() {
	a := f.p.Accepted
	if a == nil {
		return
	}
	const handshake = "the API server's TLS handshake"
	if !a.Requested {
		f.say("issuer", Refuse, handshake,
			"the API server requests no client certificate at this address: none can sign in there")
		return
	}
	latest, cert := f.latest()
	if cert == nil {
		f.say("issuer", Unknown, "", "the authority that signs for %s is known only from a certificate", f.p.SignerName)
		return
	}
	known := *a
	known.Roots = f.roots
	evidence := "request " + latest + " and " + handshake
	if f.roots != nil {
		evidence = "request " + latest + ", ConfigMap " + authenticationMap + " and " + handshake
	}
	if err := known.Check(cert); err != nil {
		f.say("issuer", Refuse, evidence, "%v", err)
		return
	}
	f.say("issuer", OK, evidence, "certificates are issued by %q, which the API server accepts", cert.Leaf.Issuer.String())
}

// latest is the certificate that was issued last, with its request's name.
func (f *forecast) latest() (name string, latest *Certificate) {
	for i := range f.earlier {
		cert, err := ParseCertificate(f.earlier[i].Status.Certificate)
		if err == nil && (latest == nil || cert.Leaf.NotBefore.After(latest.Leaf.NotBefore)) {
			name, latest = f.earlier[i].Name, cert
		}
	}
	return name, latest
}
