package discovery

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
)

// FuzzSignature: only the one true signature of a content verifies.
func FuzzSignature(f *testing.F) {
	f.Add("", "")
	f.Add("content", sign("content"))
	f.Add("content", sign("other"))
	f.Add("content", "eyJhbGciOiJub25lIn0..")
	f.Add("content", signWith(`{"alg":"HS256","kid":"ghijkl"}`, "content", tokenSecret))
	f.Add("content", "....")
	f.Fuzz(func(t *testing.T, content, signature string) {
		token := testToken(t)
		err := verifySignature(signature, []byte(content), token)
		if (err == nil) != (signature == sign(content)) {
			t.Fatalf("%q on %q: %v", signature, content, err)
		}
		if err != nil && (!errors.Is(err, ErrSignature) || strings.Contains(err.Error(), tokenSecret)) {
			t.Fatalf("error %v", err)
		}
		if err := verifySignature(sign(content), []byte(content), token); err != nil {
			t.Fatalf("the true signature of %q: %v", content, err)
		}
	})
}

// FuzzDocument: what a document yields is https, has no credential, and can be
// used and read again.
func FuzzDocument(f *testing.F) {
	ca := newAuthority(f, "cluster")
	f.Add([]byte(document("https://a:1", ca)))
	f.Add([]byte(document("https://[::1]:1/x%2fy", ca)))
	f.Add([]byte("clusters: [{name: '', cluster: {server: 'a:1', tls-server-name: x, proxy-url: 'http://p:1'}}]"))
	f.Add([]byte(`{"clusters":[{"name":"a","cluster":{"server":"https://a"}}],"contexts":[{"name":"c","context":{"cluster":"a"}}],"current-context":"c"}`))
	f.Add([]byte("users: [{name: u, user: {exec: {command: x}}}]"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte("clusters: [null]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		info, err := parseDocument(text, "")
		if err != nil {
			if !errors.Is(err, ErrDocument) && !errors.Is(err, ErrCredentials) {
				t.Fatalf("error %v", err)
			}
			if !same(info, cluster.Cluster{}) {
				t.Fatalf("%+v with %v", info, err)
			}
			return
		}
		if !strings.HasPrefix(info.Server, "https://") || strings.Contains(info.Server, "@") &&
			strings.Contains(strings.SplitN(info.Server[8:], "/", 2)[0], "@") {
			t.Fatalf("server %q", info.Server)
		}
		tgt, err := of(info)
		if err != nil {
			t.Fatalf("%+v cannot be used: %v", info, err)
		}
		if tgt.tls.InsecureSkipVerify {
			t.Fatal("verification is off")
		}
		if again := tgt.url.String(); again != info.Server {
			t.Fatalf("server %q reads again as %q", info.Server, again)
		}
		if _, err := http.NewRequest(http.MethodGet, info.Server+clusterInfoPath, http.NoBody); err != nil {
			t.Fatal(err)
		}
	})
}
