package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// What there is of gRPC here: methods that take one message, with answers in
// one or several, without compression, over the standard library's HTTP/2
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).

// code is a gRPC status code (doc/statuscodes.md there).
type code int

const (
	statusOK           code = 0
	canceled           code = 1
	invalidArgument    code = 3
	deadlineExceeded   code = 4
	notFound           code = 5
	permissionDenied   code = 7
	resourceExhausted  code = 8
	failedPrecondition code = 9
	unimplemented      code = 12
	internal           code = 13
	unavailable        code = 14
)

// failure is an error as clients get it.
type failure struct {
	code code
	text string
}

func (f *failure) Error() string { return f.text }

func failed(c code, format string, args ...any) error {
	return &failure{c, fmt.Sprintf(format, args...)}
}

// method answers a request by messages, which it sends one at a time.
type method func(ctx context.Context, request []byte, send func([]byte) error) error

// methods are a service by its methods' paths.
type methods map[string]method

// ServeHTTP implements [http.Handler].
func (s methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t := r.Header.Get("Content-Type"); r.Method != http.MethodPost || t != "application/grpc" && t != "application/grpc+proto" {
		http.Error(w, "this is a gRPC service", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	err := s.serve(w, r)
	end := &failure{code: statusOK}
	if err != nil && !errors.As(err, &end) {
		end = &failure{internal, err.Error()}
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(end.code)))
	if end.text != "" {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", percent(end.text))
	}
}

func (s methods) serve(w http.ResponseWriter, r *http.Request) error {
	m := s[r.URL.Path]
	if m == nil {
		return failed(unimplemented, "there is no method %.80q", r.URL.Path)
	}
	ctx, cancel, err := deadline(r)
	if err != nil {
		return err
	}
	defer cancel()
	request, err := receive(r.Body)
	if err != nil {
		return err
	}
	return m(ctx, request, func(b []byte) error { return sendTo(w, b) })
}

// sendTo sends a message. A client that takes none in time loses its request: who
// tells it something may have what others wait for.
func sendTo(w http.ResponseWriter, b []byte) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := w.Write(framed(b)); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

// receive reads the request's one message.
func receive(body io.Reader) ([]byte, error) {
	var head [5]byte // compressed or not, and the length
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return nil, failed(invalidArgument, "read the request: %s", err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, failed(unimplemented, "the request is compressed")
	case n > wire.MaxRequest:
		return nil, failed(resourceExhausted, "a request of %d bytes: more than %d are not read", n, wire.MaxRequest)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(body, b); err != nil {
		return nil, failed(invalidArgument, "read the request: %s", err)
	}
	if more, err := body.Read(head[:]); more > 0 || !errors.Is(err, io.EOF) {
		return nil, failed(invalidArgument, "the request does not end after its message")
	}
	return b, nil
}

// framed puts a message's head before it.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...) //nolint:gosec // ours are short
}

// deadline is the request's context with the client's patience.
func deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	s := r.Header.Get("Grpc-Timeout")
	if s == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}
	unit, n := units[s[len(s)-1]], s[:len(s)-1]
	v, err := strconv.ParseUint(n, 10, 32)
	if err != nil || unit == 0 || len(n) > 8 {
		return nil, nil, failed(invalidArgument, "grpc-timeout is %.20q", s)
	}
	const longest = 1000 * time.Hour // more hours than time.Duration holds can be written
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(min(v, uint64(longest/unit)))*unit)
	return ctx, cancel, nil
}

// percent encodes a status message: what is not plain ASCII is written as %XX.
func percent(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '%' }) {
		return text
	}
	var b bytes.Buffer
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
