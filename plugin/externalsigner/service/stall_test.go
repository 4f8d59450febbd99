package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
)

// TestClientThatTakesNothing: who takes no message, by a window that stays shut or by
// not reading, holds up nobody who tells him something: others wait for that one.
func TestClientThatTakesNothing(t *testing.T) {
	for name, reads := range map[string]bool{"no window": true, "no reads": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := make(chan time.Duration, 1)
				s := &server{ctx: t.Context(), options: Options{Answer: func(_ context.Context, _ externalsigner.Request,
					tell func(string)) (externalsigner.Answer, error) {
					begin := time.Now()
					for range 100 {
						tell("touch it")
					}
					took <- time.Since(begin)
					return externalsigner.Answer{}, nil
				}}}
				client, end := piped(t, s, keepalive.ServerParameters{})
				go request(client, v1alpha1.ExternalSignerService_GetCertificate_FullMethodName, reads, true)
				select {
				case d := <-took:
					if d > time.Second {
						t.Errorf("it was told for %v", d)
					}
				case <-time.After(time.Hour):
					t.Error("it is told for an hour")
				}
				end()
			})
		})
	}
}

// TestUnfinishedRequest: a request that does not come in time ends.
func TestUnfinishedRequest(t *testing.T) {
	for _, method := range []string{v1alpha1.ExternalSignerService_GetCertificate_FullMethodName,
		v1alpha1.ExternalSignerService_Version_FullMethodName} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{ctx: t.Context(), options: Options{Answer: func(context.Context, externalsigner.Request,
					func(string)) (externalsigner.Answer, error) {
					t.Error("it was answered")
					return externalsigner.Answer{}, nil
				}}}
				client, end := piped(t, s, keepalive.ServerParameters{})
				late := time.AfterFunc(time.Hour, func() { _ = client.Close() })
				defer late.Stop()
				begin := time.Now()
				if ended := request(client, method, true, false); !ended {
					t.Error("the request did not end")
				}
				if took := time.Since(begin); took < readTimeout || took > readTimeout+time.Second {
					t.Errorf("it ended after %v", took)
				}
				end()
			})
		})
	}
}

// request calls method, for a certificate with a window of no bytes for the answer, or
// sends only a header if it is not whole; what comes is read, or not from the request on.
// It tells whether the request ended.
func request(c net.Conn, method string, reads, whole bool) (ended bool) {
	f := http2.NewFramer(c, c)
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, err := f.ReadFrame() // the server's settings
		close(ready)
		for reads && err == nil {
			var frame http2.Frame
			frame, err = f.ReadFrame()
			if h, ok := frame.(*http2.HeadersFrame); err == nil && ok && h.StreamEnded() {
				ended = true
				return
			}
		}
	}()
	_, _ = io.WriteString(c, http2.ClientPreface) // the connection may end at any time
	window := uint32(0)
	if !whole {
		window = 1 << 16
	}
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	<-ready
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers(method)})
	if whole {
		request, _ := proto.Marshal(&v1alpha1.CertificateRequest{Version: version, Configuration: config}) // valid UTF-8
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
		_ = f.WriteData(1, true, append(head, request...))
		return false
	}
	<-done
	return ended
}

func headers(method string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "signer"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // a write to memory
	}
	return b.Bytes()
}
