package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/test/must"
)

func (f *fakeCluster) info() cluster.Cluster {
	return cluster.Cluster{Server: f.server.URL, CAData: []byte(f.ca.pem())}
}

// summary is an update in one line a change: field, and what is old and new.
func summary(u Update) string {
	var out []string
	for _, c := range u.Changes {
		out = append(out, fmt.Sprintf("%s -%t +%t", c.Field, c.Old != "", c.New != ""))
	}
	return strings.Join(out, ", ")
}

func TestRefresh(t *testing.T) {
	old, added := newAuthority(t, "old"), newAuthority(t, "added")
	renewed := old.renewed(t, "renewed")
	f := newClusterWith(t, old, old.server(t))
	elsewhere := newClusterWith(t, old, old.server(t))
	byName := strings.Replace(f.server.URL, "127.0.0.1", "localhost", 1) // nobody's certificate
	keep := f.info()
	keep.TLSServerName = "api.example"
	tests := []struct {
		name      string
		known     cluster.Cluster
		published string
		changes   string
		server    string
		cas       string
		unproven  error
	}{
		{"as before", f.info(), document(f.server.URL, old), "", f.server.URL, old.pem(), nil},
		{"what is left open stays", keep, document(f.server.URL), "", f.server.URL, old.pem(), nil},
		{"moved", f.info(), document(elsewhere.server.URL, old), "server -true +true", elsewhere.server.URL, old.pem(), nil},
		{"moved out of reach", f.info(), document(byName, old), "server -true +true", byName, old.pem(), ErrUntrusted},
		{"authority added", f.info(), document(f.server.URL, old, added), "certificate authority -false +true", f.server.URL, old.pem() + added.pem(), nil},
		{"authority renewed", f.info(), document(f.server.URL, renewed), "certificate authority -true +true", f.server.URL, renewed.pem(), ErrUntrusted},
		{"authority replaced", f.info(), document(f.server.URL, added), "certificate authority -true +false, certificate authority -false +true", f.server.URL, added.pem(), ErrUntrusted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.publish(tt.published)
			elsewhere.publish(tt.published)
			u, err := refresh(t.Context(), tt.known, nil, Limits{}, fastPace())
			must.OK(t, err)
			want := tt.known
			want.Server, want.CAData = tt.server, []byte(tt.cas)
			if summary(u) != tt.changes || !same(u.New, want) || !same(u.Old, tt.known) || u.Changed() != (tt.changes != "") {
				t.Errorf("%s: %+v", summary(u), u)
			}
			if !errors.Is(u.Unproven, tt.unproven) || (tt.unproven == nil && u.Unproven != nil) {
				t.Errorf("unproven: %v", u.Unproven)
			}
			for _, c := range u.Changes {
				if c.Field == "certificate authority" && !strings.Contains(c.Old+c.New, "sha256:") {
					t.Errorf("change %+v", c)
				}
			}
		})
	}
	// The whole rotation: both authorities are published, then the server gets
	// a certificate of the new one, then the old one goes.
	t.Run("rotation", func(t *testing.T) {
		next := newClusterWith(t, added, added.server(t))
		next.publish(document(next.server.URL, added))
		known := cluster.Cluster{Server: next.server.URL, CAData: []byte(old.pem() + added.pem())}
		u, err := refresh(t.Context(), known, nil, Limits{}, fastPace())
		if err != nil || summary(u) != "certificate authority -true +false" || u.Unproven != nil {
			t.Errorf("%s, %v, %v", summary(u), u.Unproven, err)
		}
	})
	t.Run("name and proxy", func(t *testing.T) {
		f.publish(strings.Replace(document(f.server.URL, old), "    server:",
			"    tls-server-name: api.example\n    proxy-url: http://127.0.0.1:1\n    server:", 1))
		u, err := refresh(t.Context(), f.info(), nil, Limits{}, fastPace())
		if err != nil || summary(u) != "TLS server name -false +true, proxy -false +true" ||
			!errors.Is(u.Unproven, ErrUnreachable) {
			t.Errorf("%s, %v, %v", summary(u), u.Unproven, err)
		}
	})
}

// TestFollow: without a person only what is proven, keeps an authority, and moves nothing but server and authorities is
// followed. The open connection is asked first; who may not read there asks as nobody.
func TestFollow(t *testing.T) {
	old, added := newAuthority(t, "old"), newAuthority(t, "added")
	renewed := old.renewed(t, "renewed")
	f := newClusterWith(t, old, old.server(t))
	next := newClusterWith(t, added, added.server(t))
	unverified := cluster.Cluster{Server: f.server.URL}
	with := func(document, line string) string {
		return strings.Replace(document, "    server:", "    "+line+"\n    server:", 1)
	}
	stays := document(f.server.URL, old)
	open := f.server.Client().Transport.(*http.Transport).Clone()
	open.DisableCompression = true
	t.Cleanup(open.CloseIdleConnections)
	for name, tt := range map[string]struct {
		known     cluster.Cluster
		published string
		changed   bool
		want      error
	}{
		"as before":              {f.info(), stays, false, nil},
		"authority added":        {f.info(), document(f.server.URL, old, added), true, nil},
		"authority renewed":      {f.info(), document(f.server.URL, old, renewed), true, nil},
		"moved":                  {f.info(), document(next.server.URL, old, added), true, nil},
		"moved, not proven":      {f.info(), document(next.server.URL, old), true, nil},
		"nobody there":           {f.info(), document("https://127.0.0.1:1", old, added), true, nil},
		"no authority in common": {f.info(), document(next.server.URL, added), true, nil},
		"another name":           {f.info(), with(stays, "tls-server-name: api.example"), true, nil},
		"a proxy":                {f.info(), with(stays, "proxy-url: http://127.0.0.1:1"), true, nil},
		"http":                   {f.info(), strings.Replace(stays, "https:", "http:", 1), false, ErrDocument},
		"huge":                   {f.info(), stays + strings.Repeat("#", maxAnswer), false, ErrTooLarge},
		"of the system's":        {unverified, stays, true, nil},
	} {
		for _, shown := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", shown to who signed in: ", shown), func(t *testing.T) {
				f.publish(tt.published)
				next.publish(tt.published)
				var asked int
				over := roundTrip(func(r *http.Request) (*http.Response, error) {
					asked++
					if !shown {
						return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r}, nil
					}
					return open.RoundTrip(r)
				})
				known := tt.known
				if len(known.CAData) == 0 && !shown {
					tt.want = ErrUntrusted // the system's authorities vouch for no test server
					tt.changed = false
				}
				u, err := follow(t.Context(), known, over, Limits{}, fastPace())
				if !errors.Is(err, tt.want) || u.Changed() != tt.changed || tt.want == nil && err != nil || asked == 0 {
					t.Errorf("%+v, %v, asked %d times", u, err, asked)
				}
			})
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestByPins: who does not know the authority any more believes one that is pinned, and no other, if the server has a
// certificate of it.
func TestByPins(t *testing.T) {
	former, now, other := newAuthority(t, "former"), newAuthority(t, "now"), newAuthority(t, "other")
	f := newClusterWith(t, now, now.server(t))
	known := cluster.Cluster{Server: f.server.URL, CAData: []byte(former.pem())}
	byName := known
	byName.TLSServerName = "api.example"
	wrongName := known
	wrongName.TLSServerName = "x.example"
	for name, tt := range map[string]struct {
		known     cluster.Cluster
		published string
		pins      []Pin
		want      error
	}{
		"pinned":               {known, document(f.server.URL, now, other), []Pin{now.pin()}, nil},
		"by its name":          {byName, document(f.server.URL, now), []Pin{now.pin()}, nil},
		"for other names":      {wrongName, document(f.server.URL, now), []Pin{now.pin()}, ErrUntrusted},
		"not pinned":           {known, document(f.server.URL, now), []Pin{other.pin()}, ErrNotPinned},
		"not the server's":     {known, document(f.server.URL, now, other), []Pin{other.pin()}, ErrUntrusted},
		"without an authority": {known, document(f.server.URL), []Pin{now.pin()}, ErrDocument},
		"to http":              {known, strings.Replace(document(f.server.URL, now), "https:", "http:", 1), []Pin{now.pin()}, ErrDocument},
	} {
		t.Run(name, func(t *testing.T) {
			f.publish(tt.published)
			got, err := byPins(t.Context(), tt.known, tt.pins, Limits{}, fastPace())
			if !errors.Is(err, tt.want) || tt.want == nil && (got.Server != f.server.URL || string(got.CAData) != now.pem()) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	var input *InputError
	if _, err := ByPins(t.Context(), known, nil, Limits{}); !errors.As(err, &input) {
		t.Errorf("without pins: %v", err)
	}
}

// TestRefreshProofCompares: the server that cluster-info names must say the same.
func TestRefreshProofCompares(t *testing.T) {
	ca := newAuthority(t, "cluster")
	f, elsewhere := newClusterWith(t, ca, ca.server(t)), newClusterWith(t, ca, ca.server(t))
	f.publish(document(elsewhere.server.URL, ca))
	elsewhere.publish(document(f.server.URL, ca))
	u, err := refresh(t.Context(), f.info(), nil, Limits{}, fastPace())
	if err != nil || !errors.Is(u.Unproven, ErrDiffers) {
		t.Errorf("%v, %v", u.Unproven, err)
	}
}

func TestRefreshRefuses(t *testing.T) {
	f := newCluster(t)
	other := newAuthority(t, "other")
	good := document(f.server.URL, f.ca)
	for name, tt := range map[string]struct {
		known     cluster.Cluster
		published string
		answer    func(w http.ResponseWriter) bool
		want      error
	}{
		"other authority":      {known: cluster.Cluster{Server: f.server.URL, CAData: []byte(other.pem())}, published: good, want: ErrUntrusted},
		"other name":           {known: cluster.Cluster{Server: f.server.URL, CAData: []byte(f.ca.pem()), TLSServerName: "x.example"}, published: good, want: ErrUntrusted},
		"system's authorities": {known: cluster.Cluster{Server: f.server.URL}, published: good, want: ErrUntrusted},
		"http":                 {known: cluster.Cluster{Server: "http://h:1"}, want: ErrDocument},
		"no server":            {known: cluster.Cluster{}, want: ErrDocument},
		"no authority":         {known: cluster.Cluster{Server: f.server.URL, CAData: []byte("x")}, want: ErrDocument},
		"odd proxy":            {known: cluster.Cluster{Server: f.server.URL, ProxyURL: "http://u:p@h"}, want: ErrCredentials},
		"403":                  {known: f.info(), answer: func(w http.ResponseWriter) bool { return status(w, 403) }, want: ErrAnonymous},
		"404":                  {known: f.info(), answer: func(w http.ResponseWriter) bool { return status(w, 404) }, want: ErrNoClusterInfo},
		"empty":                {known: f.info(), want: ErrNoClusterInfo},
		"http now":             {known: f.info(), published: strings.Replace(good, "https:", "http:", 1), want: ErrDocument},
		"credentials now":      {known: f.info(), published: strings.Replace(good, "users: null", "users: [{name: u, user: {token: x}}]", 1), want: ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			f.publish(tt.published)
			f.answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool { return tt.answer != nil && tt.answer(w) }
			u, err := refresh(t.Context(), tt.known, nil, Limits{}, fastPace())
			if !errors.Is(err, tt.want) || u.Changed() || !same(u.New, cluster.Cluster{}) {
				t.Errorf("%+v, %v", u, err)
			}
		})
	}
}

func TestRefreshHasATimeout(t *testing.T) {
	f := newCluster(t)
	f.answer = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		<-r.Context().Done()
		return true
	}
	if _, err := Refresh(t.Context(), f.info(), Limits{Timeout: 50 * time.Millisecond}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Refresh(ctx, f.info(), Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var input *InputError
	if _, err := Refresh(t.Context(), f.info(), Limits{Timeout: -1}); !errors.As(err, &input) {
		t.Errorf("%v", err)
	}
}

func TestDescribeNamesTheKey(t *testing.T) {
	ca := newAuthority(t, "the name")
	if got := describe(ca.cert); !strings.Contains(got, "CN=the name") || !strings.Contains(got, ca.pin().String()) {
		t.Error(got)
	}
	if got := authorityChanges([]*x509.Certificate{ca.cert}, []*x509.Certificate{ca.cert}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestChangesFromTheSystem: a cluster with a public certificate gets its own
// authority.
func TestChangesFromTheSystem(t *testing.T) {
	ca := newAuthority(t, "cluster")
	old := cluster.Cluster{Server: "https://a:1"}
	fresh := merge(old, cluster.Cluster{Server: "https://a:1", CAData: []byte(ca.pem())})
	got, err := changes(old, fresh)
	if err != nil || len(got) != 2 || got[0].Old != "those of the system" || got[1].New == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestProxies: a cluster is reached by the proxy that its description names, by none if the
// description says so, and else by the environment's. A refresh keeps that, unless it names a
// proxy itself.
func TestProxies(t *testing.T) {
	for _, tt := range []struct {
		known cluster.Cluster
		want  string
	}{
		{cluster.Cluster{}, "as the environment says"},
		{cluster.Cluster{ProxyURL: "http://p:1"}, "http://p:1"},
		{cluster.Cluster{Direct: true}, "none"},
	} {
		tt.known.Server = "https://a:1"
		at, err := of(tt.known)
		must.OK(t, err)
		got := "none"
		switch proxy := at.client().Transport.(*http.Transport).Proxy; {
		case proxy != nil && at.proxy == "":
			got = "as the environment says"
		case proxy != nil:
			u, err := proxy(nil)
			must.OK(t, err)
			got = u.String()
		}
		if got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.known, got, tt.want)
		}
		if fresh := merge(tt.known, cluster.Cluster{Server: "https://b:1"}); fresh.Direct != tt.known.Direct ||
			fresh.ProxyURL != tt.known.ProxyURL {
			t.Errorf("%+v became %+v", tt.known, fresh)
		}
		named := merge(tt.known, cluster.Cluster{Server: "https://b:1", ProxyURL: "http://q:1"})
		if named.Direct || named.ProxyURL != "http://q:1" { // a record with both could not be saved
			t.Errorf("%+v with another proxy became %+v", tt.known, named)
		}
	}
}
