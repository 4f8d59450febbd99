package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// version is the one version of the API that there is.
const version = "v1alpha1"

const (
	// maxStreams bounds the requests that one client has under way.
	maxStreams = 16
	// helloTimeout bounds the time from a connection to its first frames.
	helloTimeout = 5 * time.Second
	// endTimeout bounds how long the end waits for answers under way, which are
	// told to end.
	endTimeout = 2 * time.Second
)

// Options are what [Serve] works with.
type Options struct {
	// Answer makes an answer for the process that [PeerPID] names. tell tells the client's user something, on one
	// line. It is called by several goroutines at a time.
	Answer func(ctx context.Context, r externalsigner.Request, tell func(text string)) (externalsigner.Answer, error)
	// Log notes each request and how it ended, on a line of raw text; nil notes
	// nothing.
	Log func(line string)
}

func (o Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(fmt.Sprintf(format, args...))
	}
}

// Serve serves the connections of l until ctx ends, which ends the answers under
// way as well. It closes l.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s := &server{options: o, ctx: ctx}
	g := grpc.NewServer(grpc.Creds(onSocket{}), grpc.MaxRecvMsgSize(wire.MaxRequest), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(helloTimeout))
	v1alpha1.RegisterExternalSignerServiceServer(g, s)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		late := time.AfterFunc(endTimeout, g.Stop)
		defer late.Stop()
		g.GracefulStop()
	})
	err := g.Serve(socket.Own(l, func(err error) { o.log("refused: %s", err) }))
	if !stop() {
		<-done
	}
	if ctx.Err() != nil && errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// server is the service.
type server struct {
	v1alpha1.UnimplementedExternalSignerServiceServer
	options Options
	ctx     context.Context
}

// Version implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) Version(_ context.Context, r *v1alpha1.VersionRequest) (*v1alpha1.VersionResponse, error) {
	if err := checkVersion(r.GetVersion()); err != nil {
		return nil, err
	}
	return &v1alpha1.VersionResponse{Version: version}, nil
}

// GetCertificate implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) GetCertificate(r *v1alpha1.CertificateRequest, stream grpc.ServerStreamingServer[v1alpha1.CertificateResponse]) error {
	if err := checkVersion(r.GetVersion()); err != nil {
		return err
	}
	a, err := s.answer(stream.Context(), call{config: r.GetConfiguration()}, func(text string) error {
		return stream.Send(&v1alpha1.CertificateResponse{Content: &v1alpha1.CertificateResponse_UserPrompt{UserPrompt: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1alpha1.CertificateResponse{Content: &v1alpha1.CertificateResponse_Certificate{Certificate: a.Certificate}})
}

// Sign implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) Sign(r *v1alpha1.SignatureRequest, stream grpc.ServerStreamingServer[v1alpha1.SignatureResponse]) error {
	if err := checkVersion(r.GetVersion()); err != nil {
		return err
	}
	opts, err := optsOf(r)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	a, err := s.answer(stream.Context(), call{config: r.GetConfiguration(), digest: r.GetDigest(), opts: opts}, func(text string) error {
		return stream.Send(&v1alpha1.SignatureResponse{Content: &v1alpha1.SignatureResponse_UserPrompt{UserPrompt: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1alpha1.SignatureResponse{Content: &v1alpha1.SignatureResponse_Signature{Signature: a.Signature}})
}

// checkVersion: a client whose messages have the version as a number sends none.
func checkVersion(v string) error {
	if v != "" && v != version {
		return status.Errorf(codes.InvalidArgument, "version %.40q of the external signer API is not spoken here: it is %s", v, version)
	}
	return nil
}

// answer has a request answered and words its error for the client.
func (s *server) answer(ctx context.Context, c call, send func(text string) error) (externalsigner.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errEnding) })()
	what := "certificate"
	if c.opts != nil {
		what = "signature"
	}
	r, err := c.request()
	var a externalsigner.Answer
	if err == nil {
		t := teller{send: send, fail: cancel}
		a, err = s.options.Answer(ctx, r, t.tell)
		t.close()
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if s.ctx.Err() != nil {
			err = errEnding
		}
		s.options.log("%s: %s", what, err)
		return externalsigner.Answer{}, status.Error(code(err), words(err))
	}
	s.options.log("%s: done", what)
	return a, nil
}

// errEnding says why an answer under way ends.
var errEnding = errors.New("the external signer is ending")

// words are an error with its hint, on one line.
func words(err error) string {
	text := err.Error()
	if hint := hsm.Hint(err); hint != "" {
		text += " (" + hint + ")"
	}
	return oneLine(text)
}

// oneLine makes text fit for a client's terminal: what does not print is no
// text, wherever it came from.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// code sorts errors for clients that look at more than the text.
func code(err error) codes.Code {
	switch {
	case errors.Is(err, externalsigner.ErrRequest):
		return codes.InvalidArgument
	case errors.Is(err, errEnding):
		return codes.Unavailable
	case errors.Is(err, hsm.ErrNoToken), errors.Is(err, hsm.ErrNoKey), errors.Is(err, hsm.ErrNoCertificate):
		return codes.NotFound
	case errors.Is(err, externalsigner.ErrUntrusted):
		return codes.PermissionDenied
	case errors.Is(err, hsm.ErrCancelled), errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return codes.FailedPrecondition
}
