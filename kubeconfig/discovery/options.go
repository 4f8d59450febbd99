package discovery

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

// Times that bound a discovery.
const (
	// DefaultTimeout is for the whole of it.
	DefaultTimeout = time.Minute
	// DefaultSignatureWait is for the cluster's signature with a token; a
	// cluster signs within a second or so after the token was made.
	DefaultSignatureWait = 15 * time.Second
)

// Stdin is the [Options.File] that means [Options.Stdin].
const Stdin = "-"

// Limits bound a call in time.
type Limits struct {
	// Timeout bounds the whole; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Waiting, if set, is told before each wait why there is one. It is called
	// from the calling goroutine.
	Waiting func(reason error)
}

// Options say what to start from: either Token with Endpoint, or File.
type Options struct {
	Limits

	// Endpoint is the API server to ask: host:port, a host whose port is 6443, or an https URL.
	Endpoint string
	// Token is a bootstrap token with the usage "signing". It is not sent.
	Token bootstraptoken.Token
	// Pins are the authorities to trust, of which the cluster must have one at
	// least.
	Pins []Pin
	// UnsafeSkipCAVerification does without pins: whoever has the token can
	// pretend to be the cluster.
	UnsafeSkipCAVerification bool
	// SignatureWait bounds the wait for the signature; 0 means
	// [DefaultSignatureWait].
	SignatureWait time.Duration

	// File is the path or the https URL of a discovery file, one by itself ([DataFile]), or [Stdin].
	File string
	// Stdin is read for the File "-". A read that blocks outlives a cancelled
	// context, in a goroutine, until it returns.
	Stdin io.Reader
	// Roots are trusted for an https URL; nil means the system's.
	Roots *x509.CertPool
}

// Validate reports what cannot be right, as an *[InputError].
func (o Options) Validate() error {
	const either = "use the token or the discovery file, not both"
	switch {
	case o.Timeout < 0 || o.SignatureWait < 0:
		return problem.BadInput("timeout", "", "it is negative")
	case o.Token.IsZero() && o.File == "":
		return problem.BadInput("token", "give a bootstrap token with --token, or a file with --discovery-file",
			"there is nothing to start from")
	case !o.Token.IsZero() && o.File != "":
		return problem.BadInput("discovery-file", either, "it cannot be combined with a token")
	case o.File != "":
		return o.validateFile()
	}
	if _, err := parseServer(o.Endpoint); err != nil {
		return problem.BadInput("endpoint", "an endpoint is host, host:port or an https URL", "%v", err)
	}
	if o.UnsafeSkipCAVerification && len(o.Pins) > 0 {
		return problem.BadInput("discovery-token-unsafe-skip-ca-verification", "leave one of them out",
			"it cannot be combined with certificate hashes")
	}
	if !o.UnsafeSkipCAVerification && len(o.Pins) == 0 {
		return problem.BadInput("discovery-token-ca-cert-hash",
			"ask for the hash with the token; --discovery-token-unsafe-skip-ca-verification joins without one, and "+
				"trusts everyone who knows the token",
			"without a hash, anybody who knows the token can pretend to be the cluster")
	}
	return nil
}

func (o Options) validateFile() error {
	const field = "discovery-file"
	switch {
	case o.Endpoint != "":
		return problem.BadInput(field, "leave the address out", "the file names the cluster's address")
	case len(o.Pins) > 0 || o.UnsafeSkipCAVerification:
		return problem.BadInput(field, "leave the certificate hashes out",
			"the file names the authority to trust; hashes are for tokens")
	case o.File == Stdin && o.Stdin == nil:
		return problem.BadInput(field, "", "there is no standard input to read")
	case o.File != Stdin && isURL(o.File):
		if _, err := parseFileURL(o.File); err != nil {
			return problem.BadInput(field, "a discovery file is a path, an https URL or -", "%v", err)
		}
	}
	return nil
}

// isURL tells a URL from a path: a Windows path has no //.
func isURL(file string) bool { return strings.Contains(file, "://") }

func parseFileURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL") // url.Parse repeats it, password and all
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("the scheme must be https, not %q", u.Scheme)
	case u.User != nil:
		return errors.New("the URL must not contain a user")
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	}
	if port := u.Port(); port != "" {
		return checkPort(port)
	}
	return nil
}

// maxServer bounds an API server's address, in bytes. Clients get it in their environment, and errors repeat it.
const maxServer = 2 << 10

// parseServer reads an API server's address, host:port, a host at [usualPort], or an https
// URL, which may have a path.
func parseServer(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("there is no address")
	}
	if len(text) > maxServer {
		return nil, fmt.Errorf("it is longer than %d bytes", maxServer)
	}
	if !isURL(text) {
		return parseHostPort(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("there is more than host, port and path in the URL")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// usualPort is where kubeadm's API servers listen.
const usualPort = "6443"

// withPort adds the usual port to a host or an IP address without one; an IPv6 address has to
// be in brackets.
func withPort(text string) string {
	if text != "" && (!strings.Contains(text, ":") || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")) {
		return text + ":" + usualPort
	}
	return text
}

func parseHostPort(text string) (*url.URL, error) {
	host, port, err := net.SplitHostPort(withPort(text))
	if err != nil || host == "" {
		return nil, fmt.Errorf("%q is not host:port", text)
	}
	if err := checkPort(port); err != nil {
		return nil, err
	}
	// Through the parser of URLs: it judges what a host may be.
	u, err := url.Parse("https://" + net.JoinHostPort(host, port))
	if err != nil || u.Hostname() != host || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not host:port", text)
	}
	return u, nil
}

func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port %q is not a number from 1 to 65535", port)
	}
	return nil
}
