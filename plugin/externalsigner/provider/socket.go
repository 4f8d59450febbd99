package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

const (
	version = "v1alpha1"
	// scheme may begin a socket's address; an absolute path follows.
	scheme = "unix://"
	// maxPrompt bounds what is shown of a prompt, in characters.
	maxPrompt = 400
)

// remote is a signer that answers on a socket (v1alpha1.ExternalSignerService).
// A connection is made for each answer, which is a moment's work: no process
// keeps one that the signer's end would break.
type remote struct {
	path    string
	cluster *v1alpha1.Cluster // the part that client-go gives to auth providers
	config  map[string]string
	options Options

	mu     sync.Mutex
	public crypto.PublicKey // key of the last certificate: decides how to ask for signatures
}

func newSocket(address, cluster string, config map[string]string, o Options) (*remote, error) {
	path := strings.TrimPrefix(address, scheme)
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s %s is not an absolute path, with or without %s",
			wire.KeyPathSocket, quoted(address), scheme)
	}
	return &remote{path: path, cluster: &v1alpha1.Cluster{Server: cluster}, config: config, options: o}, nil
}

// String implements [source].
func (s *remote) String() string { return quoted(scheme + s.path) }

// with calls f with the signer. Its errors are worded for people.
func (s *remote) with(ctx context.Context, f func(v1alpha1.ExternalSignerServiceClient) error) (err error) {
	var unreached atomic.Pointer[error] // why the last attempt at a connection failed
	conn, err := grpc.NewClient("passthrough:///signer",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket is a file; who is behind it is checked
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := socket.Dial(ctx, s.path)
			unreached.Store(nil)
			if err != nil {
				unreached.Store(&err)
			}
			return conn, err
		}))
	if err != nil {
		return err
	}
	defer func() {
		if why := unreached.Load(); why != nil && status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			err = noConnection(*why)
		}
		err = errors.Join(worded(ctx, err), conn.Close())
	}()
	return f(v1alpha1.NewExternalSignerServiceClient(conn))
}

// noConnection words why there is no connection to the socket, whose name is
// said by others.
func noConnection(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	const start = "nobody answers there: start `kubehsm external-signer serve` "
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New(start + "(there is no such socket)")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New(start + "(nothing listens on the socket)")
	}
	text := printable(err.Error())
	if hint := hinting.Of(err); hint != "" {
		text += ": " + hint
	}
	return errors.New(text)
}

// worded takes gRPC's own words from an error.
func worded(ctx context.Context, err error) error {
	if _, limited := ctx.Deadline(); limited && status.Code(err) == codes.DeadlineExceeded {
		<-ctx.Done() // the signer knows our deadline, and its clock was a moment faster
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("it was given up: %w", context.Cause(ctx))
	}
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return err
	}
	// kubectl takes these two words, wherever they stand, for the API server's.
	return errors.New(strings.ReplaceAll(printable(s.Message()), "connection refused", "the connection was refused"))
}

func (s *remote) certificate(ctx context.Context) (chain []*x509.Certificate, err error) {
	err = s.with(ctx, func(c v1alpha1.ExternalSignerServiceClient) error {
		stream, err := c.GetCertificate(ctx, &v1alpha1.CertificateRequest{Version: version, Cluster: s.cluster,
			Configuration: s.config})
		if err != nil {
			return err
		}
		m, err := answer(s, stream.Recv, (*v1alpha1.CertificateResponse).GetUserPrompt,
			(*v1alpha1.CertificateResponse).GetCertificate)
		if err != nil {
			return err
		}
		chain, err = wire.ParseChain(m.GetCertificate(), m.GetChain())
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.public = chain[0].PublicKey
		s.mu.Unlock()
	}
	return chain, err
}

func (s *remote) sign(ctx context.Context, digest []byte, opts crypto.SignerOpts) (signature []byte, err error) {
	request := &v1alpha1.SignatureRequest{Version: version, Cluster: s.cluster, Configuration: s.config, Digest: digest}
	s.mu.Lock()
	public := s.public
	s.mu.Unlock()
	if err := setOpts(request, public, opts); err != nil {
		return nil, err
	}
	err = s.with(ctx, func(c v1alpha1.ExternalSignerServiceClient) error {
		stream, err := c.Sign(ctx, request)
		if err != nil {
			return err
		}
		m, err := answer(s, stream.Recv, (*v1alpha1.SignatureResponse).GetUserPrompt,
			(*v1alpha1.SignatureResponse).GetSignature)
		if err != nil {
			return err
		}
		signature = m.GetSignature()
		return nil
	})
	return signature, err
}

// setOpts writes signer options in the form that the key's kind has.
func setOpts(r *v1alpha1.SignatureRequest, public crypto.PublicKey, opts crypto.SignerOpts) error {
	generic := &v1alpha1.SignatureRequest_GenericSignerOptions{Hash: uint32(opts.HashFunc())}
	pss, isPSS := opts.(*rsa.PSSOptions)
	switch public.(type) {
	case *rsa.PublicKey:
		if isPSS {
			r.SignerOpts = &v1alpha1.SignatureRequest_SignerOptsRSAPSS{
				SignerOptsRSAPSS: &v1alpha1.SignatureRequest_RSAPSSOptions{
					SaltLenght: int32(pss.SaltLength), Hash: uint32(pss.Hash)}}
			return nil
		}
		r.SignerOpts = &v1alpha1.SignatureRequest_SignerOptsRSAPKCS1{SignerOptsRSAPKCS1: generic}
	case *ecdsa.PublicKey:
		r.SignerOpts = &v1alpha1.SignatureRequest_SignerOptsECDSA{SignerOptsECDSA: generic}
	case ed25519.PublicKey:
		r.SignerOpts = &v1alpha1.SignatureRequest_SignerOptsED25519{SignerOptsED25519: generic}
	default:
		return fmt.Errorf("a key of type %T", public)
	}
	return nil
}

// maxPrompts bounds the messages before an answer.
const maxPrompts = 200

// answer reads messages until the one with the answer, which it returns; prompts are shown.
func answer[M any](s *remote, recv func() (*M, error), prompt func(*M) string, value func(*M) []byte) (*M, error) {
	for range maxPrompts {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it ended without an answer")
		}
		if err != nil {
			return nil, err
		}
		if len(value(m)) > 0 {
			return m, nil
		}
		if text := prompt(m); text != "" {
			if _, err := fmt.Fprintln(s.options.Stderr, printable(text)); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("it sent %d messages and no answer", maxPrompts)
}

// printable makes text fit for a terminal, whatever the signer or a token's
// label put into it.
func printable(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	if len(runes) > maxPrompt {
		runes = append(runes[:maxPrompt], '…')
	}
	return string(runes)
}
