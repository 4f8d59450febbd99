package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// No more of a list is in memory than is read soon, with a certificate authority in a file, as in a pod, too.
func TestInPieces(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL, BearerToken: "a", TLSClientConfig: rest.TLSClientConfig{CAFile: ca}}
	config.Wrap(inPieces)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	rt := client.Transport
	for {
		w, ok := rt.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		rt = w.WrappedRoundTripper()
	}
	if at, ok := rt.(*http.Transport); !ok || at.HTTP2 == nil || at.HTTP2.MaxReceiveBufferPerStream != unread {
		t.Errorf("the connection is %#v", rt)
	}
}
