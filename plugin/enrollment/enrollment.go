package enrollment

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// The store's errors.
var (
	// ErrUnknown says that no enrollment has that name.
	ErrUnknown = errors.New("no such enrollment")
	// ErrInvalid says that an enrollment or its name cannot be used.
	ErrInvalid = errors.New("not a usable enrollment")
)

// Enrollment is one cluster, key and identity under a name.
type Enrollment struct {
	// Name matches ^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$.
	Name string `json:"name"`
	// Cluster is the API server as the user enrolled it. It is unverified only if the user
	// has asked for that by the server's name: a kubeconfig cannot turn verification off.
	Cluster cluster.Cluster `json:"cluster"`
	// Key names the key on its token.
	Key hsm.URI `json:"key"`
	// KeyHash is [hsm.Fingerprint] of the public key: 64 lower-case hex digits.
	KeyHash string `json:"keyHash"`
	// User and Groups are the identity in the certificate (CN and O).
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Issuer is who issued the certificate and renews it (its distinguished name), for one that
	// was on the token and is not the cluster's; "" if the cluster's signer renews it.
	Issuer string `json:"issuer,omitempty"`
	// SpareOf names the enrollment whose context this one's key serves too, for the key of a spare
	// token; "" for an enrollment with a context of its own.
	SpareOf string `json:"spareOf,omitempty"`
	// SpareOfKey is that enrollment's KeyHash: a spare serves and follows no other key's enrollment
	// of the same name.
	SpareOfKey string `json:"spareOfKey,omitempty"`
	// Policy says which requests need the user's consent, Rules which those of
	// [consent.Rules] are. It counts whatever a kubeconfig says.
	Policy consent.Mode   `json:"policy,omitempty"`
	Rules  []consent.Rule `json:"rules,omitempty"`
	// Context is the kubeconfig context that was enrolled from, Namespace its
	// namespace, Kubeconfig the file that our entries were written to.
	Context    string    `json:"context,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	Created    time.Time `json:"created"`
	// Signed is what the key has signed of all this, see [Enrollment.Version]: without it, the
	// enrollment is not served.
	Signed Signed `json:"signed,omitzero"`
}

// Command is what enrolls e anew, or goes on with it: `kubehsm enroll`, or join
// if no context was enrolled from.
func (e Enrollment) Command() string {
	verb := "enroll"
	if e.Context == "" {
		verb = "join"
	}
	return "kubehsm " + verb + " --name " + e.Name
}

// Anew is the command that gets a certificate once e's has ended: it cannot ask for
// its successor then. What was joined takes another ticket of the help desk's.
func (e Enrollment) Anew() string {
	if e.Issuer != "" { // the certificate's successor is on the token then
		return e.Command()
	}
	if e.Context == "" {
		return e.Command() + " --ticket -"
	}
	return e.Command()
}

// Restart is the command that enrolls e anew, with a new key or with what on names, a token or a key:
// what is begun anew takes nothing from the record. The zero on leaves that to the command.
func (e Enrollment) Restart(on hsm.URI) string {
	words := []string{e.Command(), "--restart"}
	ofToken := "--token"
	if e.Context == "" { // a join takes the rest from a ticket
		words, ofToken = append(words, "--ticket -"), "--hsm"
	}
	switch {
	case on.Scheme == "":
	case on.TokenOnly().String() == on.String():
		words = append(words, ofToken, shell.Quote(on.String()))
	default:
		words = append(words, "--key", shell.Quote(on.String()))
	}
	if e.Context == "" {
		return strings.Join(words, " ")
	}
	words = append(words, "--context", shell.Quote(e.Context))
	if e.Issuer != "" { // the certificate on the token says for whom it is
		return strings.Join(append(words, "--use-certificate"), " ")
	}
	words = append(words, "--user", shell.Quote(e.User))
	for _, g := range e.Groups {
		words = append(words, "--group", shell.Quote(g))
	}
	return strings.Join(words, " ")
}

// Renewal is the command that gets the next certificate, where e's ends at notAfter: one that has
// ended cannot ask for its successor, and one that is not the cluster's is renewed by its issuer.
func (e Enrollment) Renewal(notAfter, now time.Time) string {
	if e.Issuer != "" || !notAfter.After(now) {
		return e.Anew()
	}
	return "kubehsm certificate renew " + e.Name
}

// ValidName says why name cannot name an enrollment, or nil. Errors wrap [ErrInvalid].
func ValidName(name string) error {
	if !validName(name) {
		return hint.With(fmt.Errorf("name %q: %w", name, ErrInvalid),
			"use 1 to 63 lower-case letters, digits, dots and dashes, beginning and ending with a letter or digit")
	}
	return nil
}

// validName matches ^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$.
func validName(name string) bool {
	if name == "" || len(name) > 63 || strings.Trim(name, ".-") != name {
		return false
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return true
}

// Validate says what is wrong with e, or nil. Errors wrap [ErrInvalid].
func (e Enrollment) Validate() error {
	if err := ValidName(e.Name); err != nil {
		return err
	}
	if err := e.validate(); err != nil {
		return fmt.Errorf("enrollment %s: %w: %w", e.Name, ErrInvalid, err)
	}
	return nil
}

func (e Enrollment) validate() error {
	server, err := url.Parse(e.Cluster.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil || server.RawQuery != "" ||
		server.Fragment != "" {
		return fmt.Errorf("server %q is not a plain https URL", e.Cluster.Server)
	}
	if ca := e.Cluster.CAData; len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return errors.New("the certificate authority data holds no certificate")
	}
	if e.Cluster.InsecureSkipTLSVerify && len(e.Cluster.CAData) > 0 {
		return errors.New("it has a certificate authority, and is not to be verified")
	}
	if e.Cluster.Direct && e.Cluster.ProxyURL != "" {
		return errors.New("it is reached directly, and by a proxy")
	}
	if p := e.Cluster.ProxyURL; p != "" {
		u, err := url.Parse(p)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5") {
			return errors.New("the proxy is not an http, https or socks5 URL")
		}
	}
	if !isKeyHash(e.KeyHash) {
		return fmt.Errorf("key hash %q is not a SHA-256 in hex", e.KeyHash)
	}
	if e.Key.Scheme == "" {
		return errors.New("no key is named")
	}
	if e.SpareOf != "" && (e.SpareOf == e.Name || !validName(e.SpareOf)) {
		return fmt.Errorf("it cannot be a spare of %q", e.SpareOf)
	}
	if spare := e.SpareOf != ""; spare != (e.SpareOfKey != "") || spare && !isKeyHash(e.SpareOfKey) {
		return fmt.Errorf("it cannot be a spare of the key %q", e.SpareOfKey)
	}
	return e.Consent().Validate()
}

func isKeyHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

// IsSpareOf reports whether e is a spare of first, with the key that first has now.
func (e Enrollment) IsSpareOf(first Enrollment) bool {
	return e.SpareOf == first.Name && e.SpareOfKey == first.KeyHash
}

// KeyGone says that the key of e is no longer on its token, and how to enroll anew.
func (e Enrollment) KeyGone() error {
	return hint.Withf(fmt.Errorf("the key of %s is no longer on the token", e.Name), "make a new key with `%s`",
		e.Restart(hsm.URI{}))
}

// Consent is the enrollment's policy in one piece.
func (e Enrollment) Consent() consent.Policy { return consent.Policy{Mode: e.Policy, Rules: e.Rules} }

// By is e with the key of one of its spares in place of its own, which has not signed that yet.
func (e Enrollment) By(spare Enrollment) Enrollment {
	e.Key, e.KeyHash, e.Issuer, e.Signed = spare.Key, spare.KeyHash, spare.Issuer, Signed{}
	return e
}

// Host is the API server's host and port, for people.
func (e Enrollment) Host() string {
	u, err := url.Parse(e.Cluster.Server)
	if err != nil {
		return e.Cluster.Server
	}
	return u.Host
}

// EncodeChain writes a chain as PEM, in its order.
func EncodeChain(chain []*x509.Certificate) []byte {
	var out []byte
	for _, c := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// decodeChain reads one or more CERTIFICATE blocks; text around them is allowed.
func decodeChain(b []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("unexpected PEM block %q", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return chain, nil
}
