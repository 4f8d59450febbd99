package externalsigner

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
)

// Request is what a client asks for.
type Request = wire.Request

// ErrRequest says that a request could not be understood or is not allowed.
var ErrRequest = wire.ErrRequest

// Requested reports whether the program was started as an external signer. args
// are the arguments without the program's name, getenv is [os.Getenv].
func Requested(args []string, getenv func(string) string) bool { return wire.Requested(args, getenv) }

// Read finds and parses the request. Errors wrap [ErrRequest].
func Read(args []string, getenv func(string) string) (Request, error) {
	return wire.Read(args, getenv)
}

// Remote is something that holds keys unlocked, such as an agent.
type Remote interface {
	// Sign signs with the key that u names. held is false if the key is not
	// held unlocked, which is no error: then the token is used here.
	Sign(ctx context.Context, u hsm.URI, digest []byte, opts crypto.SignerOpts) (signature []byte, held bool, err error)
}

// Options are what [Serve] works with.
type Options struct {
	// Drivers makes the drivers, which are closed before they return. module,
	// if not empty, is the path of a PKCS#11 library that may be loaded beside
	// those that are known anyway.
	Drivers func(module string) hsm.Drivers
	// Prompter asks the user; nil asks nobody.
	Prompter hsm.Prompter
	// Modules decides on libraries that a kubeconfig names.
	Modules Modules
	// PINSources are those of the user's configuration, which Prompter reads: a
	// kubeconfig's may only be one of them.
	PINSources []pinsource.Entry
	// Enrolled returns the certificate of the user's enrollment called name and the
	// issuers to present after it, if it is for the key that u names; nil and no error
	// if it is not. A token has one certificate for a key, and no chain; several
	// clusters each know another. It may be nil.
	Enrolled func(name string, u hsm.URI) ([]*x509.Certificate, error)
	// Remote may be nil.
	Remote Remote
	// Warn tells the user something on one line; it is raw text, to be cleaned
	// where it is shown. Nil tells nothing.
	Warn func(message string)
}

func (o Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

const maxUnknown = 4

// Serve does what r asks for, and returns the answer, to be written to standard
// output as it is. It overwrites the PIN that r may carry.
//
// Errors: [ErrUntrusted]; [hsm.ErrNoToken], [hsm.ErrNoKey], [hsm.ErrSeveralKeys],
// [hsm.ErrNoCertificate], [hsm.ErrKeyMismatch] where the request names no usable
// key; [ErrRequest] where the key cannot sign what is asked; what the token and
// the prompter return.
func Serve(ctx context.Context, r Request, o Options) (answer []byte, err error) {
	defer r.Zero()
	o.Prompter = ask.With(o.Prompter, hsm.Purpose{Action: "sign in"})
	for i, key := range r.Config.Unknown {
		if i == maxUnknown { // a warning is for a typing mistake, not for a kubeconfig full of them
			o.warn("the auth provider's configuration has %d more keys that mean nothing to kubehsm", len(r.Config.Unknown)-i)
			break
		}
		o.warn("the auth provider's configuration has %.80q, which means nothing to kubehsm", key)
	}
	if chain, err := o.enrolled(r); err != nil {
		return nil, err
	} else if chain != nil {
		return certified(r.Dialect, chain), nil
	}
	if signature, held, err := o.remote(ctx, r); err != nil {
		return nil, err
	} else if held {
		return wire.SignAnswer(r.Dialect, signature), nil
	}
	where, err := o.locate(ctx, r.Config)
	if err != nil {
		return nil, err
	}
	drivers := o.Drivers(where.module)
	defer func() { answer, err = after(answer, err, drivers.Close()) }()
	key, err := o.find(ctx, drivers, where, r)
	if err != nil {
		return nil, err
	}
	defer func() { answer, err = after(answer, err, key.token.Close()) }()
	if r.Operation == wire.Certificate {
		cert, err := key.certificate()
		if err != nil {
			return nil, err
		}
		return certified(r.Dialect, []*x509.Certificate{cert}), nil
	}
	signature, err := key.sign(ctx, r.Digest, r.Opts)
	if err != nil {
		return nil, err
	}
	return wire.SignAnswer(r.Dialect, signature), nil
}

func certified(d wire.Dialect, chain []*x509.Certificate) []byte {
	var issuers [][]byte
	for _, issuer := range chain[1:] {
		issuers = append(issuers, issuer.Raw)
	}
	return wire.CertificateAnswer(d, chain[0].Raw, issuers...)
}

// after adds the error of a clean-up, which takes the place of an answer.
func after(answer []byte, err, closing error) ([]byte, error) {
	if closing == nil {
		return answer, err
	}
	return nil, errors.Join(err, closing)
}

func (o Options) enrolled(r Request) ([]*x509.Certificate, error) {
	if o.Enrolled == nil || r.Operation != wire.Certificate || r.Config.Enrollment == "" || r.Config.URI == nil {
		return nil, nil
	}
	return o.Enrolled(r.Config.Enrollment, *r.Config.URI)
}

// remote signs with the key of another holder. Only a URI names a key there.
func (o Options) remote(ctx context.Context, r Request) ([]byte, bool, error) {
	if o.Remote == nil || r.Operation != wire.Sign || r.Config.URI == nil {
		return nil, false, nil
	}
	return o.Remote.Sign(ctx, r.Config.URI.Identity(), r.Digest, r.Opts) // the remote signer has its own list of libraries
}
