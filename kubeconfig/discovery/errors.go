package discovery

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

// What went wrong; test with errors.Is.
var (
	// ErrUnreachable: no answer, or none in time.
	ErrUnreachable = errors.New("cannot reach the server")
	// ErrUntrusted: the server's certificate does not verify.
	ErrUntrusted = errors.New("the server's certificate is not to be trusted")
	// ErrAnswer: something answered that is not a Kubernetes API server, or it
	// answered with what makes no sense.
	ErrAnswer = errors.New("not the answer of a Kubernetes API server")
	// ErrRedirect: the server sent us elsewhere, where we do not go.
	ErrRedirect = errors.New("redirect refused")
	// ErrTooLarge: more was sent than such a thing can have.
	ErrTooLarge = errors.New("too large")
	// ErrAnonymous: cluster-info may not be read anonymously (401 or 403).
	ErrAnonymous = errors.New("the cluster does not show its cluster-info to everybody")
	// ErrAnonymousOff is ErrAnonymous where nothing may be read anonymously (401): to publish cluster-info is in vain.
	ErrAnonymousOff = fmt.Errorf("%w: it takes no anonymous requests", ErrAnonymous)
	// ErrNoClusterInfo: the cluster publishes no cluster-info, or an empty one.
	ErrNoClusterInfo = errors.New("the cluster publishes no cluster-info")
	// ErrUnknownToken: cluster-info is not signed with this token.
	ErrUnknownToken = errors.New("the cluster does not know this token")
	// ErrSignature: the signature on cluster-info is not this token's.
	ErrSignature = errors.New("the signature on cluster-info is wrong")
	// ErrNotPinned: none of the cluster's authorities is a pinned one.
	ErrNotPinned = errors.New("the cluster's certificate authority is not the pinned one")
	// ErrDiffers: the verified server gave another cluster-info.
	ErrDiffers = errors.New("cluster-info differs when it is read over the verified connection")
	// ErrDocument: a discovery document does not say one cluster clearly.
	ErrDocument = errors.New("unusable discovery document")
	// ErrCredentials: a discovery document holds a credential.
	ErrCredentials = errors.New("the discovery document holds a credential")
)

// InputError is an option that cannot be right, found before anything was sent;
// its Field names the option as kubeadm's flags do: "token", "discovery-file".
type InputError = problem.Input

// networkError turns what net/http returned for a call to host into an error
// of this package, and says whether trying again may help.
func networkError(host string, err error) (_ error, again bool) {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		dns       *net.DNSError
		redirect  *redirectError
	)
	untrusted := func(next string) (error, bool) {
		return hint.Withf(fmt.Errorf("%s: %w: %w", host, ErrUntrusted, err), "%s", next), false
	}
	unreachable := func(again bool, next string) (error, bool) {
		return hint.Withf(fmt.Errorf("%w %s: %w", ErrUnreachable, host, err), "%s", next), again
	}
	switch {
	case errors.As(err, &redirect):
		return err, false
	case strings.Contains(err.Error(), "server response headers exceeded"): // net/http has no type for it
		return fmt.Errorf("the answer of %s: %w: its header", host, ErrTooLarge), false
	case errors.As(err, &authority):
		return untrusted("it was not issued by the expected authority: somebody may be in between, or the authority was " +
			"replaced; get a new token or discovery file from a trusted place")
	case errors.As(err, &name):
		return untrusted("it is for other names: use the address that the cluster's administrators name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return untrusted("it or its authority is expired or not yet valid: check this computer's clock")
	case errors.As(err, &verify):
		return untrusted("somebody may be in between: get a new token or discovery file from a trusted place")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return hint.Withf(fmt.Errorf("%s: %w: it does not speak TLS", host, ErrAnswer),
			"check the address and the port; API servers often use 6443"), false
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return unreachable(false, "the server ended the TLS handshake: is it an API server?")
	case errors.As(err, &dns) && dns.IsNotFound:
		return unreachable(false, "the name does not resolve: check the address, the network and the VPN")
	default:
		return unreachable(true, "check that it is up and reachable from here")
	}
}
