package enrollment

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// ErrUnsigned says that the key of an enrollment has not signed its record as it is.
var ErrUnsigned = errors.New("its key has not signed its record as it is")

// Signed is a text that says where an enrollment leads and what needs consent there, and the
// signature of the enrollment's key over it.
type Signed struct {
	Text      string `json:"text,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

// Version is what such a text says: a version of the enrollment's record.
type Version struct {
	Name string  `json:"name"`
	Key  hsm.URI `json:"key"`
	// PublicKey is the key that signs, as a PKIX SubjectPublicKeyInfo.
	PublicKey []byte `json:"publicKey"`
	// Cluster has no CAData: CA is its SHA-256, in hex.
	Cluster cluster.Cluster `json:"cluster"`
	CA      string          `json:"ca,omitempty"`
	Policy  consent.Mode    `json:"policy,omitempty"`
	Rules   []consent.Rule  `json:"rules,omitempty"`
	// SpareOf and SpareOfKey are the name and the key of the enrollment that this is a spare of.
	SpareOf    string `json:"spareOf,omitempty"`
	SpareOfKey string `json:"spareOfKey,omitempty"`
	// Number is greater than that of the version before. It is the time in seconds, if that is
	// greater too: then it is the greatest even if earlier versions are lost.
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"`
	// Nonce makes each version another one: nobody can have it signed ahead.
	Nonce string `json:"nonce"`
}

// signedDomain begins the signed text. No statement of consent begins so.
const signedDomain = "kubehsm enrollment v1\n"

const (
	// maxSigned bounds the text in bytes: a record of the audit log has room for it.
	maxSigned = 10 << 10
	// maxNumber bounds the numbers of versions.
	maxNumber = 1 << 53
)

// version is the version of e's record with the key, number, time and nonce of of.
func (e Enrollment) version(of Version) Version {
	of.Name, of.Key, of.Cluster, of.Policy, of.Rules = e.Name, e.Key, e.Cluster, e.Policy, e.Rules
	of.SpareOf, of.SpareOfKey = e.SpareOf, e.SpareOfKey
	if of.CA = ""; len(e.Cluster.CAData) > 0 {
		sum := sha256.Sum256(e.Cluster.CAData)
		of.CA, of.Cluster.CAData = hex.EncodeToString(sum[:]), nil
	}
	return of
}

func (v Version) text() (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("enrollment %s: %w", v.Name, err)
	}
	return signedDomain + string(b), nil
}

// Consent is the version's policy in one piece.
func (v Version) Consent() consent.Policy { return consent.Policy{Mode: v.Policy, Rules: v.Rules} }

// SignedBy returns e with its record signed by key as the version after the one that e has.
func (e Enrollment) SignedBy(key crypto.Signer, now time.Time) (Enrollment, error) {
	if err := e.Validate(); err != nil {
		return e, err
	}
	v := Version{Number: uint64(max(now.Unix(), 1)), Time: now.UTC().Truncate(time.Second), Nonce: rand.Text()}
	if last, err := e.Signed.Open(e.KeyHash); err == nil {
		v.Number = max(v.Number, min(last.Number+1, maxNumber))
	}
	var err error
	if v.PublicKey, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return e, fmt.Errorf("enrollment %s: %w", e.Name, err)
	}
	if e.Signed.Text, err = e.version(v).text(); err != nil {
		return e, err
	}
	if b, err := json.Marshal(e.Signed.Text); err != nil || len(b) > maxSigned {
		return e, errors.Join(fmt.Errorf("enrollment %s: %w: the key would sign %d bytes, but at most %d are allowed", e.Name,
			ErrInvalid, len(b), maxSigned), err)
	}
	if e.Signed.Signature, err = consent.Sign(key, e.Signed.Text); err != nil {
		return e, fmt.Errorf("sign the record of %s: %w", e.Name, err)
	}
	_, err = e.Version()
	return e, err
}

// Open returns what the key with that hash ([hsm.Fingerprint]) has signed. Errors wrap
// [consent.ErrSignature].
func (s Signed) Open(hash string) (v Version, err error) {
	body, ok := strings.CutPrefix(s.Text, signedDomain)
	if !ok || len(s.Text) > maxSigned {
		return v, fmt.Errorf("%w: it is not a version of a record", consent.ErrSignature)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return v, fmt.Errorf("%w: %w", consent.ErrSignature, err)
	}
	if sum := sha256.Sum256(v.PublicKey); hex.EncodeToString(sum[:]) != hash {
		return v, fmt.Errorf("%w: it is another key's", consent.ErrSignature)
	}
	pub, err := x509.ParsePKIXPublicKey(v.PublicKey)
	if err != nil {
		return v, fmt.Errorf("%w: %w", consent.ErrSignature, err)
	}
	if v.Number == 0 || v.Number > maxNumber {
		return v, fmt.Errorf("%w: it has the number %d", consent.ErrSignature, v.Number)
	}
	return v, consent.VerifyText(pub, signedDomain, s.Text, s.Signature)
}

// Later reports whether s is a later version than other, by the key with that hash.
func (s Signed) Later(other Signed, hash string) bool {
	v, err := s.Open(hash)
	than, wrong := other.Open(hash)
	return err == nil && (wrong != nil || v.Number > than.Number)
}

// Version returns the version of e's record that its key has signed, if e is as that says.
// Errors wrap [ErrUnsigned].
func (e Enrollment) Version() (Version, error) {
	if e.Signed.Text == "" {
		return Version{}, e.unsigned(nil)
	}
	v, err := e.Signed.Open(e.KeyHash)
	if err != nil {
		return v, e.unsigned(err)
	}
	return v, e.Agrees(v)
}

// Agrees is nil if e says what v does, which its key has signed. Errors wrap [ErrUnsigned].
func (e Enrollment) Agrees(v Version) error {
	now := e.version(v)
	text, err := now.text()
	if err != nil || text == e.Signed.Text {
		return err
	}
	var differ []string
	for _, f := range Changes(v, now) {
		differ = append(differ, f.Label)
	}
	return e.unsigned(fmt.Errorf("it differs in: %s", strings.Join(differ, ", ")))
}

func (e Enrollment) unsigned(why error) error {
	err := fmt.Errorf("enrollment %s: %w", e.Name, ErrUnsigned)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return e.SignAgain(err)
}

// SignAgain is err with the command that has the key sign the record again.
func (e Enrollment) SignAgain(err error) error {
	return hint.Withf(err, "`kubehsm consent show %s` shows it; `kubehsm consent set %[1]s --policy POLICY` has its key sign "+
		"it again, and requires the PIN", e.Name)
}

// Says is what e says, signed or not.
func (e Enrollment) Says() Version { return e.version(Version{}) }

// Fields are what a person reads before the key signs e's record.
func (e Enrollment) Fields() []hsm.Field { return e.Says().fields() }

func (v Version) fields() (fields []hsm.Field) {
	add := func(label string, values ...string) { fields = append(fields, hsm.Field{Label: label, Values: values}) }
	optional := func(label, value string) {
		if value != "" {
			add(label, consent.Quote(value))
		}
	}
	add("Record", "of the enrollment "+consent.Name(v.Name))
	add("Server", consent.Quote(v.Cluster.Server))
	optional("TLS name", v.Cluster.TLSServerName)
	switch {
	case v.Cluster.InsecureSkipTLSVerify:
		add("CA", "none: THE SERVER IS NOT VERIFIED")
	case v.CA == "":
		add("CA", "those that this computer trusts")
	default:
		add("CA", "SHA-256 "+v.CA[:min(len(v.CA), 32)]+"...")
	}
	optional("Proxy", v.Cluster.ProxyURL)
	if v.Cluster.Direct {
		add("Proxy", "none, even if the environment names one")
	}
	key := []string{consent.Quote(v.Key.Identity().String())}
	for _, library := range []string{v.Key.ModulePath, v.Key.ModuleName} {
		if library != "" {
			key = append(key, "by the library "+consent.Quote(library))
		}
	}
	add("Key", key...)
	policy := []string{string(v.Policy)}
	if policy[0] == "" {
		policy[0] = string(consent.Session)
	}
	for _, r := range v.Rules {
		policy = append(policy, r.String())
	}
	add("Policy", policy...)
	if v.SpareOf != "" {
		add("Spare", "of "+consent.Name(v.SpareOf)+", whose key is "+v.SpareOfKey[:min(len(v.SpareOfKey), 16)]+"...")
	}
	return fields
}

// Changes are the fields of to that from does not have, and those that only from has as gone. It
// has what else differs as one more field.
func Changes(from, to Version) (changes []hsm.Field) {
	was := map[string]hsm.Field{}
	for _, f := range from.fields() {
		was[f.Label] = f
	}
	for _, f := range to.fields() {
		old, had := was[f.Label]
		delete(was, f.Label)
		switch {
		case !had:
			changes = append(changes, f)
		case !reflect.DeepEqual(old, f):
			for i := range f.Values {
				f.Values[i] = "now " + f.Values[i]
			}
			f.Values = append(f.Values, "was "+strings.Join(old.Values, "; "))
			changes = append(changes, f)
		}
	}
	for _, f := range from.fields() {
		if _, gone := was[f.Label]; gone {
			changes = append(changes, hsm.Field{Label: f.Label, Values: []string{"none now", "was " + strings.Join(f.Values, "; ")}})
		}
	}
	if len(changes) == 0 {
		changes = []hsm.Field{{Label: "Other", Values: []string{"a detail that no field shows"}}}
	}
	return changes
}

// Follow returns e, a spare of first, as its record has to be: where first leads, with the policy
// of first. It reports whether that differs. Errors wrap [ErrUnsigned]: first has another key than
// the one that e's key has signed to be a spare of.
func (e Enrollment) Follow(first Enrollment) (next Enrollment, differs bool, err error) {
	if !e.IsSpareOf(first) {
		return e, false, e.unsigned(fmt.Errorf("it is a spare of another key than %s has now", first.Name))
	}
	next = e
	next.Cluster, next.Namespace, next.Policy, next.Rules = first.Cluster, first.Namespace, first.Policy, first.Rules
	return next, !reflect.DeepEqual(e.Says(), next.Says()), nil
}
