package execcredential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/pkg/apis/clientauthentication/install"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// codec is client-go's own, built as its exec plugin runner builds it.
func codec(t testing.TB, version string) runtime.Codec {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	gv, err := schema.ParseGroupVersion(version)
	check(t, err)
	return serializer.NewCodecFactory(scheme).LegacyCodec(gv)
}

func pair(t testing.TB, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "loopback"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	check(t, err)
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kder})
}

// TestReadsWhatClientGoWrites covers every field with client-go's encoder, and one of a
// later client.
func TestReadsWhatClientGoWrites(t *testing.T) {
	for _, version := range []string{V1, V1beta1} {
		for _, config := range []runtime.Object{nil,
			&runtime.Unknown{Raw: []byte(`{"enrollment":"a"}`), ContentType: runtime.ContentTypeJSON}} {
			in := &clientauthentication.ExecCredential{Spec: clientauthentication.ExecCredentialSpec{Interactive: true,
				Cluster: &clientauthentication.Cluster{Server: "https://h", TLSServerName: "s", InsecureSkipTLSVerify: true,
					CertificateAuthorityData: []byte("ca"), ProxyURL: "http://p", DisableCompression: true, Config: config}}}
			data, err := runtime.Encode(codec(t, version), in)
			check(t, err)
			got, err := Read(strings.Replace(string(data), "{", `{"later":{"x":1},`, 1))
			check(t, err)
			want := Request{APIVersion: version, Interactive: true,
				Cluster: &cluster.Cluster{Server: "https://h", TLSServerName: "s",
					InsecureSkipTLSVerify: true, CAData: []byte("ca"), ProxyURL: "http://p", DisableCompression: true}}
			if config != nil {
				want.Config = []byte(`{"enrollment":"a"}`)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v from %s", version, got, data)
			}
		}
	}
}

// TestAssume: a client that sends no request is answered in a version that we
// speak, and what entries say in its place is a request.
func TestAssume(t *testing.T) {
	for in, want := range map[string]string{"": V1beta1, "v1": V1, "v1beta1": V1beta1, V1: V1, V1beta1: V1beta1} {
		r, err := Assume(in)
		if err != nil || !reflect.DeepEqual(r, Request{APIVersion: want}) {
			t.Errorf("%q: %+v, %v", in, r, err)
		}
		if said, err := Read(Minimal(want)); err != nil || !reflect.DeepEqual(said, r) {
			t.Errorf("%s: %+v, %v", Minimal(want), said, err)
		}
		if _, _, err := codec(t, want).Decode([]byte(Minimal(want)), nil, nil); err != nil {
			t.Errorf("client-go does not read %s: %v", Minimal(want), err)
		}
	}
	for _, in := range []string{"v1alpha1", "v2", "V1", "client.authentication.k8s.io/v1alpha1", "example.com/v1"} {
		if _, err := Assume(in); !errors.Is(err, ErrVersion) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	ok := `"kind":"ExecCredential","apiVersion":"` + V1 + `"`
	for name, c := range map[string]struct {
		env  string
		want error
		hint string
		text string
	}{
		"unset":         {"", ErrNoRequest, "called by kubectl", "KUBERNETES_EXEC_INFO is not set"},
		"blank":         {" \n", ErrNoRequest, "called by kubectl", ""},
		"v1alpha1":      {`{"kind":"ExecCredential","apiVersion":"` + v1alpha1 + `"}`, ErrVersion, V1beta1, "removed from Kubernetes in 1.24"},
		"v2":            {`{"kind":"ExecCredential","apiVersion":"` + group + `/v2"}`, ErrVersion, V1, "/v2"},
		"other group":   {`{"kind":"ExecCredential","apiVersion":"v1"}`, ErrVersion, V1, ""},
		"no version":    {`{"kind":"ExecCredential"}`, ErrRequest, "", "no apiVersion"},
		"other case":    {`{"Kind":"ExecCredential","APIVersion":"` + V1 + `"}`, ErrRequest, "", "no apiVersion"},
		"other kind":    {`{"kind":"Pod","apiVersion":"` + V1 + `"}`, ErrRequest, "", `"Pod"`},
		"not JSON":      {"prod", ErrRequest, "", ""},
		"array":         {"[]", ErrRequest, "", ""},
		"trailing":      {`{` + ok + `}{}`, ErrRequest, "", ""},
		"doubled":       {`{` + ok + `,"spec":{"cluster":{"server":"https://a","server":"https://b"}}}`, ErrRequest, "", "twice"},
		"bad base64":    {`{` + ok + `,"spec":{"cluster":{"certificate-authority-data":"%"}}}`, ErrRequest, "", ""},
		"spec a string": {`{` + ok + `,"spec":"x"}`, ErrRequest, "", ""},
		"too large":     {`{` + ok + `,"x":"` + strings.Repeat("y", MaxRequest) + `"}`, ErrRequest, "", "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(c.env)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if !strings.Contains(hinting.Of(err), c.hint) || (c.hint == "") != (hinting.Of(err) == "") {
				t.Errorf("hint %q, want %q", hinting.Of(err), c.hint)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q lacks %q", err, c.text)
			}
			if !reflect.DeepEqual(got, Request{}) {
				t.Errorf("half a request came back: %+v", got)
			}
		})
	}
}

// onceWriter counts the calls and may fail.
type onceWriter struct {
	bytes.Buffer
	calls int
	short bool
}

func (w *onceWriter) Write(p []byte) (int, error) {
	w.calls++
	if w.short {
		return w.Buffer.Write(p[:1])
	}
	return w.Buffer.Write(p)
}

// TestClientGoReads feeds the answer to client-go's decoder, and compares the
// bytes with its encoder.
func TestClientGoReads(t *testing.T) {
	cert, key := pair(t, time.Now().Add(24*time.Hour))
	crlf := bytes.ReplaceAll(cert, []byte("\n"), []byte("\r\n"))
	for _, version := range []string{V1, V1beta1} {
		for _, r := range []Response{{cert, key, time.Time{}}, {cert, key, time.Now().Add(time.Hour).In(time.FixedZone("", 7200))},
			{crlf, key, time.Time{}}} {
			var w onceWriter
			check(t, Write(&w, version, r))
			var got clientauthentication.ExecCredential
			_, gvk, err := codec(t, version).Decode(w.Bytes(), nil, &got)
			check(t, err)
			if gvk.GroupVersion().String() != version {
				t.Errorf("version %s, want %s", gvk, version)
			}
			want := clientauthentication.ExecCredentialStatus{ClientCertificateData: string(r.CertificatePEM),
				ClientKeyData: string(r.KeyPEM)}
			if !r.Expiration.IsZero() {
				e := metav1.NewTime(r.Expiration.Truncate(time.Second))
				want.ExpirationTimestamp = &e
				if !got.Status.ExpirationTimestamp.Time.Equal(e.Time) {
					t.Errorf("expires %s, want %s", got.Status.ExpirationTimestamp, e)
				}
				got.Status.ExpirationTimestamp = &e
			}
			if !reflect.DeepEqual(*got.Status, want) {
				t.Errorf("client-go reads %+v", *got.Status)
			}
			theirs, err := runtime.Encode(codec(t, version), &clientauthentication.ExecCredential{Status: &want})
			check(t, err)
			if !bytes.Equal(theirs, w.Bytes()) || w.calls != 1 {
				t.Errorf("bytes differ, or came in %d writes:\nours   %s\ntheirs %s", w.calls, w.Bytes(), theirs)
			}
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	end := time.Now().Add(time.Hour)
	cert, key := pair(t, end)
	_, other := pair(t, end)
	for name, c := range map[string]struct {
		version string
		r       Response
		want    error
	}{
		"no version":       {"", Response{cert, key, time.Time{}}, ErrRequest},
		"v1alpha1":         {v1alpha1, Response{cert, key, time.Time{}}, ErrVersion},
		"other key":        {V1, Response{cert, other, time.Time{}}, ErrResponse},
		"no certificate":   {V1, Response{nil, key, time.Time{}}, ErrResponse},
		"no key":           {V1, Response{cert, nil, time.Time{}}, ErrResponse},
		"quote in text":    {V1, Response{append([]byte("\"x\"\n"), cert...), key, time.Time{}}, ErrResponse},
		"escape in text":   {V1, Response{append([]byte("\x1b[2J\n"), cert...), key, time.Time{}}, ErrResponse},
		"outlives its end": {V1, Response{cert, key, end.Add(time.Minute)}, ErrResponse},
	} {
		t.Run(name, func(t *testing.T) {
			var w onceWriter
			if err := Write(&w, c.version, c.r); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if w.calls != 0 {
				t.Errorf("wrote %q", w.String())
			}
		})
	}
	if err := Write(&onceWriter{short: true}, V1, Response{cert, key, time.Time{}}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: %v", err)
	}
}

func TestResponseHidesItsKey(t *testing.T) {
	cert, key := pair(t, time.Now().Add(time.Hour))
	r := Response{cert, key, time.Time{}}
	for _, s := range []string{fmt.Sprint(r), fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", r), fmt.Sprintf("%v", &r)} {
		if strings.Contains(s, "PRIVATE") || strings.Contains(s, "45") {
			t.Errorf("shows %q", s)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"kind":"ExecCredential","apiVersion":"` + V1 +
		`","spec":{"cluster":{"server":"https://h","config":{"a":[1,null]}},"interactive":true}}`)
	f.Add(`{"kind":"ExecCredential","apiVersion":"` + V1beta1 + `","spec":{"cluster":null}}`)
	f.Add(`{"kind":"ExecCredential","apiVersion":"` + V1 + `","spec":{"interactive":false},"spec":{"interactive":true}}`)
	f.Fuzz(func(t *testing.T, env string) {
		got, err := Read(env)
		if err != nil {
			if !errors.Is(err, ErrNoRequest) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrRequest) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		// What we accept, client-go accepts and understands alike.
		var theirs clientauthentication.ExecCredential
		if _, _, err := codec(t, got.APIVersion).Decode([]byte(env), nil, &theirs); err != nil {
			t.Fatalf("client-go refuses what was accepted: %v", err)
		}
		if theirs.Spec.Interactive != got.Interactive || (theirs.Spec.Cluster == nil) != (got.Cluster == nil) {
			t.Fatalf("client-go understands %+v, we %+v", theirs.Spec, got)
		}
		if c := got.Cluster; c != nil && (c.Server != theirs.Spec.Cluster.Server ||
			!bytes.Equal(c.CAData, theirs.Spec.Cluster.CertificateAuthorityData)) {
			t.Fatalf("client-go understands %+v, we %+v", *theirs.Spec.Cluster, *c)
		}
	})
}
