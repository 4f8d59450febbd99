package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
)

// TestClientThatTakesNothing: who takes no message, by a window that stays shut or by
// not reading, holds up nobody who tells him something: others wait for that one.
func TestClientThatTakesNothing(t *testing.T) {
	for name, reads := range map[string]bool{"no window": true, "no reads": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stall(t, reads) })
		})
	}
}

func stall(t *testing.T, reads bool) {
	told := make(chan time.Duration, 1)
	s := &server{ctx: t.Context(), options: Options{Answer: func(ctx context.Context, _ externalsigner.Request, tell func(string)) (externalsigner.Answer, error) {
		begin := time.Now()
		tell("touch it")
		told <- time.Since(begin)
		<-ctx.Done()
		return externalsigner.Answer{}, context.Cause(ctx)
	}}}
	h := s.http()
	h.HTTP2.SendPingTimeout = 0 // the client answers them
	ours, theirs := net.Pipe()
	l := make(pipe, 1)
	l <- theirs
	ended := make(chan error)
	go func() { ended <- h.Serve(l) }()
	go ask(ours, reads)
	select {
	case took := <-told:
		if took > sendTimeout+time.Second {
			t.Errorf("it was told for %v", took)
		}
	case <-time.After(time.Hour):
		t.Error("it is told for an hour")
	}
	if err := errors.Join(ours.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// ask asks for a certificate, with a window of no bytes for the answer; what
// comes is read, or not from the request on.
func ask(c net.Conn, reads bool) {
	_, _ = io.WriteString(c, http2.ClientPreface) // the connection may end at any time
	f := http2.NewFramer(c, c)
	ready := make(chan struct{})
	go func() {
		_, err := f.ReadFrame() // the server's settings
		close(ready)
		for reads && err == nil {
			_, err = f.ReadFrame()
		}
	}()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	<-ready
	request := one(fieldVersion, []byte(version))
	entry := append(one(1, []byte("uri")), one(2, []byte(config["uri"]))...)
	request = append(request, one(fieldConfiguration, entry)...)
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers()})
	_ = f.WriteData(1, true, framed(request))
}

func headers() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", service + "GetCertificate"}, {":authority", "signer"}, {"content-type", "application/grpc"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // it goes to memory
	}
	return b.Bytes()
}
