package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/netutil"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// version is the one version of the API that there is; service begins the paths
// of its methods.
const (
	version = "v1alpha1"
	service = "/v1alpha1.ExternalSignerService/"
)

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
	// sendTimeout bounds the time in which a client takes a message.
	sendTimeout = 5 * time.Second
	// idleTimeout is how long a client may stay connected that asks for nothing; it
	// connects again when it does.
	idleTimeout = 5 * time.Minute
	// pingTimeout is how long a client may be silent before it is asked whether it
	// is there.
	pingTimeout = time.Minute
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
	h := s.http()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		late, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if h.Shutdown(late) != nil {
			_ = h.Close() // the listener is closed by now
		}
	})
	l = named{socket.Own(l, func(err error) { o.log("refused: %s", err) })}
	err := h.Serve(netutil.LimitListener(l, maxConns))
	if !stop() {
		<-done
	}
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// http is the service with its bounds.
func (s *server) http() *http.Server {
	h := &http.Server{
		Handler: methods{
			service + "Version":        s.version,
			service + "GetCertificate": s.certificate,
			service + "Sign":           s.sign,
		},
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingTimeout, WriteByteTimeout: sendTimeout},
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: helloTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		ConnContext:       withPeer,
		ErrorLog:          log.New(logger(s.options.log), "", 0),
	}
	h.Protocols.SetUnencryptedHTTP2(true)
	return h
}

// logger is a writer of lines.
type logger func(format string, args ...any)

func (l logger) Write(b []byte) (int, error) {
	l("%s", bytes.TrimSpace(b))
	return len(b), nil
}

// server is the service.
type server struct {
	options Options
	ctx     context.Context
}

// read reads a request of the version that is spoken here. A client whose
// messages have the version as a number sends none.
func read(b []byte) (message, error) {
	m, err := parse(b)
	switch {
	case err != nil:
		return m, failed(invalidArgument, "malformed request: %s", err)
	case m.version != "" && m.version != version:
		return m, failed(invalidArgument, "version %.40q of the external signer API is not spoken here: it is %s", m.version, version)
	}
	return m, nil
}

func (s *server) version(_ context.Context, request []byte, send func([]byte) error) error {
	if _, err := read(request); err != nil {
		return err
	}
	return send(one(fieldVersion, []byte(version)))
}

func (s *server) certificate(ctx context.Context, request []byte, send func([]byte) error) error {
	m, err := read(request)
	if err != nil {
		return err
	}
	a, err := s.answer(ctx, call{config: m.configuration}, send)
	if err != nil {
		return err
	}
	return send(one(fieldAnswer, a.Certificate))
}

func (s *server) sign(ctx context.Context, request []byte, send func([]byte) error) error {
	m, err := read(request)
	if err != nil {
		return err
	}
	opts, err := m.opts.signer()
	if err != nil {
		return failed(invalidArgument, "%s", err)
	}
	a, err := s.answer(ctx, call{config: m.configuration, digest: m.digest, opts: opts}, send)
	if err != nil {
		return err
	}
	return send(one(fieldAnswer, a.Signature))
}

// answer has a request answered and words its error for the client.
func (s *server) answer(ctx context.Context, c call, send func([]byte) error) (externalsigner.Answer, error) {
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
		t := teller{send: func(text string) error { return send(one(fieldPrompt, []byte(text))) }, fail: cancel}
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
		return externalsigner.Answer{}, &failure{codeOf(err), words(err)}
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

// codeOf sorts errors for clients that look at more than the text.
func codeOf(err error) code {
	switch {
	case errors.Is(err, externalsigner.ErrRequest):
		return invalidArgument
	case errors.Is(err, errEnding):
		return unavailable
	case errors.Is(err, hsm.ErrNoToken), errors.Is(err, hsm.ErrNoKey), errors.Is(err, hsm.ErrNoCertificate):
		return notFound
	case errors.Is(err, externalsigner.ErrUntrusted):
		return permissionDenied
	case errors.Is(err, hsm.ErrCancelled), errors.Is(err, context.Canceled):
		return canceled
	case errors.Is(err, context.DeadlineExceeded):
		return deadlineExceeded
	}
	return failedPrecondition
}
