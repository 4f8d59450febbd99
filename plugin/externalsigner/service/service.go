package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// version is the one version of the API that there is.
const version = "v1alpha1"

// versionField is the number of the field version in each request.
const versionField = 1

// All clients are the user's own programs; what one of them does wrong must not
// take the service from the others.
const (
	// maxConns bounds the clients that are connected; more wait.
	maxConns = 64
	// maxStreams bounds the requests that one client has under way.
	maxStreams = 16
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 16 << 10
	// helloTimeout bounds the time from a connection to its first frames.
	helloTimeout = 5 * time.Second
	// readTimeout bounds the time from a request's header to its end.
	readTimeout = 10 * time.Second
	// idleTimeout is how long a client may stay connected that asks for nothing; it
	// connects again when it does.
	idleTimeout = 5 * time.Minute
	// pingTime is how long a client may be silent before it is asked whether it is
	// there, pingTimeout how long its answer may take.
	pingTime    = time.Minute
	pingTimeout = 5 * time.Second
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
	g := s.grpc(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: pingTime, Timeout: pingTimeout})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		late := time.AfterFunc(endTimeout, g.Stop)
		defer late.Stop()
		g.GracefulStop()
	})
	l = named{socket.Own(l, func(err error) { o.log("refused: %s", err) })}
	err := g.Serve(netutil.LimitListener(l, maxConns))
	if errors.Is(err, grpc.ErrServerStopped) && ctx.Err() != nil { // before it had begun
		err = nil
	}
	if !stop() {
		<-done
	}
	return err
}

// grpc is the service with its bounds.
func (s *server) grpc(k keepalive.ServerParameters) *grpc.Server {
	g := grpc.NewServer(
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveParams(k),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(wire.MaxRequest),
		grpc.StreamInterceptor(inTime),
		grpc.InTapHandle(atOnce),
	)
	v1alpha1.RegisterExternalSignerServiceServer(g, s)
	return g
}

// atOnce bounds a call of the one method that is no stream, as [inTime] does the others: it
// asks nobody anything.
func atOnce(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName != v1alpha1.ExternalSignerService_Version_FullMethodName {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	context.AfterFunc(ctx, cancel) // ctx ends with the call, too
	return ctx, nil
}

// inTime bounds the time that a client takes for its request.
func inTime(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, patient{stream})
}

// patient is a stream whose request is awaited for [readTimeout].
type patient struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream]. A request that is late is the stream's end,
// which ends the read as well.
func (p patient) RecvMsg(m any) error {
	read := make(chan error, 1)
	go func() { read <- p.ServerStream.RecvMsg(m) }()
	select {
	case err := <-read:
		return err
	case <-time.After(readTimeout):
		return status.Error(codes.DeadlineExceeded, "the request did not come in time")
	}
}

// server is the service.
type server struct {
	v1alpha1.UnimplementedExternalSignerServiceServer
	options Options
	ctx     context.Context
}

// spoken refuses a request of a version that is not spoken here. The prototype's last form has
// the version as a number, which counts from 0 and is left out where it is 0: v1alpha1.
func spoken(r interface {
	proto.Message
	GetVersion() string
}) error {
	v := r.GetVersion()
	if v == "" {
		v = numbered(r.ProtoReflect().GetUnknown())
	}
	if v != version {
		return status.Errorf(codes.InvalidArgument, "version %.40q of the external signer API is not spoken here: it is %s",
			v, version)
	}
	return nil
}

// numbered is the version that the fields say which are not of the form with a string.
func numbered(fields protoreflect.RawFields) string {
	v := version
	for len(fields) > 0 {
		number, kind, tag := protowire.ConsumeTag(fields)
		size := protowire.ConsumeFieldValue(number, kind, fields[tag:])
		if number == versionField && kind == protowire.VarintType {
			v = version
			if n, _ := protowire.ConsumeVarint(fields[tag:]); n != 0 {
				v = strconv.FormatUint(n, 10)
			}
		}
		fields = fields[tag+size:]
	}
	return v
}

// Version implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) Version(_ context.Context, r *v1alpha1.VersionRequest) (*v1alpha1.VersionResponse, error) {
	return &v1alpha1.VersionResponse{Version: version}, spoken(r)
}

// GetCertificate implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) GetCertificate(r *v1alpha1.CertificateRequest,
	stream grpc.ServerStreamingServer[v1alpha1.CertificateResponse]) error {
	if err := spoken(r); err != nil {
		return err
	}
	request, err := wire.FromParts(r.GetConfiguration(), nil, nil)
	a, err := s.answer(stream.Context(), "certificate", request, err, func(text string) error {
		return stream.Send(&v1alpha1.CertificateResponse{Content: &v1alpha1.CertificateResponse_UserPrompt{UserPrompt: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1alpha1.CertificateResponse{Chain: a.Chain,
		Content: &v1alpha1.CertificateResponse_Certificate{Certificate: a.Certificate}})
}

// Sign implements [v1alpha1.ExternalSignerServiceServer].
func (s *server) Sign(r *v1alpha1.SignatureRequest,
	stream grpc.ServerStreamingServer[v1alpha1.SignatureResponse]) error {
	if err := spoken(r); err != nil {
		return err
	}
	opts, err := signerOpts(r)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	request, err := wire.FromParts(r.GetConfiguration(), r.GetDigest(), opts)
	a, err := s.answer(stream.Context(), "signature", request, err, func(text string) error {
		return stream.Send(&v1alpha1.SignatureResponse{Content: &v1alpha1.SignatureResponse_UserPrompt{UserPrompt: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1alpha1.SignatureResponse{Content: &v1alpha1.SignatureResponse_Signature{Signature: a.Signature}})
}

// answer has a request answered, unless it is bad, and words the error for the
// client.
func (s *server) answer(ctx context.Context, what string, r externalsigner.Request, bad error,
	send func(prompt string) error) (externalsigner.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errEnding) })()
	var a externalsigner.Answer
	err := bad
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
		return externalsigner.Answer{}, status.Error(codeOf(err), words(err))
	}
	s.options.log("%s: done", what)
	return a, nil
}

// errEnding says why an answer under way ends.
var errEnding = errors.New("the external signer is ending")

// words are an error with its hint, on one line.
func words(err error) string {
	text := err.Error()
	if hint := hinting.Of(err); hint != "" {
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

// codeOf sorts errors for clients that look at more than the text.
func codeOf(err error) codes.Code {
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
