package wire

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm/shared/strict"
)

// APIVersion is the one version of the protocol that there is.
const APIVersion = "external-signer.authentication.k8s.io/v1alpha1"

const (
	// MaxRequest is the largest request read, in bytes: what Linux lets an
	// environment variable be.
	MaxRequest = 128 << 10
	// MaxMessage is the longest message signed by Ed25519, in bytes. The longest
	// in a handshake is TLS 1.2's transcript, mostly the server's certificates.
	MaxMessage = 64 << 10
)

// ErrRequest says that a request could not be understood or is not allowed.
var ErrRequest = errors.New("malformed external signer request")

// Dialect says whose kinds a client uses.
type Dialect uint8

// The dialects. The zero value is the KEP's.
const (
	KEP Dialect = iota
	Prototype
)

// Operation is what a client asks for.
type Operation uint8

// The operations.
const (
	Certificate Operation = iota + 1
	Sign
)

var kinds = []struct {
	dialect         Dialect
	operation       Operation
	request, answer string
}{
	{KEP, Certificate, "CertificateRequest", "CertificateResponse"},
	{KEP, Sign, "SignRequest", "SignResponse"},
	{Prototype, Certificate, "Certificate", "ExternalPublicKey"},
	{Prototype, Sign, "Sign", "ExternalSigner"},
}

// Kind is what the dialect calls a request for o.
func (d Dialect) Kind(o Operation) string { return kindOf(d, o).request }

// Request is what a client asks for.
type Request struct {
	Dialect   Dialect
	Operation Operation
	// Config says where the key is.
	Config Config
	// Digest is what is to be signed: a digest of the length that Opts' hash
	// has or, if that hash is 0 (Ed25519), the message. Nil unless Sign.
	Digest []byte
	// Opts is an [*rsa.PSSOptions], or a [crypto.Hash] for ECDSA, RSA PKCS#1
	// v1.5 and (0) Ed25519. Nil unless Sign.
	Opts crypto.SignerOpts
}

// Zero overwrites the PIN that the request may carry.
func (r Request) Zero() { r.Config.PIN.Zero() }

// form is a request as written; a missing field is nil.
type form struct {
	apiVersion, kind                   *string
	digest, signerOptsType, signerOpts *string
	configuration                      map[string]text
}

// text is a string that can be overwritten: one of them may be a PIN.
type text []byte

func (t *text) UnmarshalText(b []byte) error {
	*t = append(make([]byte, 0, len(b)), b...)
	return nil
}

func (f *form) read(b []byte) error {
	all, err := strict.Members(b)
	if err != nil {
		return err
	}
	for _, m := range all {
		switch m.Name {
		case "apiVersion":
			err = m.Read(&f.apiVersion)
		case "kind":
			err = m.Read(&f.kind)
		case "digest":
			err = m.Read(&f.digest)
		case "signerOptsType":
			err = m.Read(&f.signerOptsType)
		case "signerOpts":
			err = m.Read(&f.signerOpts)
		case "configuration":
			err = f.configure(m.Value)
			clear(m.Value)
		default:
			err = m.Unknown()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *form) configure(b []byte) error {
	all, err := strict.Members(b)
	if err != nil {
		return fmt.Errorf("field \"configuration\": %w", err)
	}
	f.configuration = make(map[string]text, len(all))
	for _, m := range all {
		var value text
		err := m.Read(&value)
		f.configuration[m.Name] = value
		clear(m.Value)
		if err != nil {
			return err
		}
	}
	return nil
}

// Parse reads a request. It overwrites b before it returns, as there may be a
// PIN in it; the caller zeroes what it was copied from, where possible, and the
// request. Errors wrap [ErrRequest] and quote neither PIN nor digest.
func Parse(b []byte) (Request, error) {
	defer clear(b)
	r, err := parse(b)
	if err != nil {
		r.Zero()
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return r, nil
}

func parse(b []byte) (r Request, err error) {
	if len(b) > MaxRequest {
		return r, fmt.Errorf("%d bytes, at most %d are read", len(b), MaxRequest)
	}
	var f form
	defer func() {
		for _, v := range f.configuration {
			clear(v)
		}
	}()
	if err := f.read(b); err != nil {
		return r, err
	}
	if r.Dialect, r.Operation, err = f.asks(); err != nil {
		return r, err
	}
	if r.Config, err = parseConfig(f.configuration); err != nil || r.Operation == Certificate {
		return r, err
	}
	if r.Opts, err = parseOpts(*f.signerOptsType, *f.signerOpts); err != nil {
		return r, err
	}
	r.Digest, err = parseDigest(*f.digest, r.Opts.HashFunc())
	return r, err
}

func (f *form) asks() (Dialect, Operation, error) {
	switch {
	case f.apiVersion == nil:
		return 0, 0, errors.New("it has no apiVersion")
	case *f.apiVersion != APIVersion:
		return 0, 0, fmt.Errorf("apiVersion is %.80q, not %s", *f.apiVersion, APIVersion)
	case f.kind == nil:
		return 0, 0, errors.New("it has no kind")
	case f.configuration == nil:
		return 0, 0, errors.New("it has no configuration")
	}
	for _, k := range kinds {
		if k.request == *f.kind {
			return k.dialect, k.operation, f.complete(k.operation)
		}
	}
	return 0, 0, fmt.Errorf("unknown kind %.80q", *f.kind)
}

func (f *form) complete(o Operation) error {
	for _, field := range []struct {
		name  string
		value *string
	}{{"digest", f.digest}, {"signerOptsType", f.signerOptsType}, {"signerOpts", f.signerOpts}} {
		switch {
		case o == Sign && field.value == nil:
			return fmt.Errorf("%s is missing", field.name)
		case o == Certificate && field.value != nil:
			return fmt.Errorf("a %s has no %s", *f.kind, field.name)
		}
	}
	return nil
}

func parseDigest(s string, h crypto.Hash) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || bytes.ContainsAny([]byte(s), "\r\n") { // the decoder skips line ends
		return nil, errors.New("the digest is not base64")
	}
	return b, checkDigest(b, h)
}

func checkDigest(b []byte, h crypto.Hash) error {
	switch {
	case h == 0 && (len(b) == 0 || len(b) > MaxMessage):
		return fmt.Errorf("a message of %d bytes: between 1 and %d can be signed without a hash", len(b), MaxMessage)
	case h != 0 && len(b) != h.Size():
		return fmt.Errorf("a digest of %d bytes is no %s, which has %d", len(b), h, h.Size())
	}
	return nil
}

// NewRequest writes the request for a certificate: config is the auth
// provider's configuration in the kubeconfig, passed on as it is.
func NewRequest(d Dialect, config map[string]string) ([]byte, error) {
	return marshal(d, Certificate, config, written{})
}

// NewSignRequest writes the request for a signature. Errors: opts that the
// protocol has no form for.
func NewSignRequest(d Dialect, config map[string]string, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	kind, value, err := formatOpts(opts)
	if err != nil {
		return nil, err
	}
	encoded := base64.StdEncoding.EncodeToString(digest)
	return marshal(d, Sign, config, written{Digest: &encoded, SignerOptsType: &kind, SignerOpts: &value})
}

// written is a request in the field order of the KEP and the prototype.
type written struct {
	APIVersion     string            `json:"apiVersion"`
	Kind           string            `json:"kind"`
	Digest         *string           `json:"digest,omitempty"`
	Configuration  map[string]string `json:"configuration"`
	SignerOptsType *string           `json:"signerOptsType,omitempty"`
	SignerOpts     *string           `json:"signerOpts,omitempty"`
}

func marshal(d Dialect, o Operation, config map[string]string, w written) ([]byte, error) {
	w.APIVersion, w.Kind, w.Configuration = APIVersion, kindOf(d, o).request, config
	if config == nil {
		w.Configuration = map[string]string{}
	}
	return json.Marshal(w)
}

type kindNames struct{ request, answer string }

func kindOf(d Dialect, o Operation) kindNames {
	for _, k := range kinds {
		if k.dialect == d && k.operation == o {
			return kindNames{k.request, k.answer}
		}
	}
	return kindNames{}
}
