package cluster_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// TestEndpoint: a context tells where its cluster is. One of ours is followed to the
// enrollment; one that does not verify its server is only taken by its host's name.
func TestEndpoint(t *testing.T) {
	w := enrolled(t)
	a := cluster.Access{Env: w.Env}
	for _, c := range []struct{ context, enrollment, server string }{
		{"", "prod-hsm", w.Server.URL}, {"Prod/EU west", "", w.Server.URL}, {"open", "", "https://10.0.0.2:6443"},
	} {
		at, err := a.Endpoint(t.Context(), c.context)
		if err != nil || at.Enrollment != c.enrollment || at.Cluster.Server != c.server {
			t.Errorf("%q: %+v, %v", c.context, at, err)
		}
		server, serr := a.Server(t.Context(), c.context)
		verified, verr := a.Verified(t.Context(), c.context)
		if serr != nil || server != c.server || (verr == nil) != (c.context != "open") || verr == nil &&
			verified.Server != c.server {
			t.Errorf("%q: %s, %v; verified %+v, %v", c.context, server, serr, verified, verr)
		}
	}
	at, err := a.Endpoint(t.Context(), "open")
	must.OK(t, err)
	var unverified *cluster.UnverifiedError
	for _, host := range []string{"", "10.0.0.2", "10.0.0.1:6443"} {
		if err := at.Accepts(host); !errors.As(err, &unverified) ||
			!strings.Contains(hinting.Of(err), "--accept-risk unverified:10.0.0.2:6443") ||
			!strings.Contains(hinting.Of(err), unverified.Consequence()) || !strings.Contains(err.Error(), `"open"`) {
			t.Errorf("as %q: %v, hint %q", host, err, hinting.Of(err))
		}
	}
	if err := at.Accepts("10.0.0.2:6443"); err != nil {
		t.Error(err)
	}
}

// TestEndpointOfWhatIsNotThere: every error names the context, cluster, enrollment or file
// that is missing.
func TestEndpointOfWhatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		context, from, to string
		want              error
		words             string
	}{
		"context":   {context: "none", want: kubeconfig.ErrNoContext},
		"cluster":   {from: "cluster: prod,", to: "cluster: other,", words: `"other"`},
		"authority": {from: "certificate-authority-data:", to: "certificate-authority: nowhere.pem, x:", want: os.ErrNotExist},
	} {
		w := plain(t)
		text, err := os.ReadFile(w.Env.Kubeconfig)
		if err == nil && c.from != "" {
			err = os.WriteFile(w.Env.Kubeconfig, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600)
		}
		must.OK(t, err)
		a := cluster.Access{Env: w.Env}
		_, at := a.Endpoint(t.Context(), c.context)
		_, verified := a.Verified(t.Context(), c.context)
		_, config := a.Config(t.Context(), c.context)
		_, tokens := a.BootstrapTokens(t.Context(), c.context)
		for _, err := range []error{at, verified, config, tokens} {
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if asked := w.Server.Asked(); len(asked) > 0 {
			t.Errorf("%s: the cluster was asked for %q", name, asked)
		}
	}
	w := enrolled(t)
	must.OK(t, w.Env.Enrollments().Delete("prod-hsm"))
	if _, err := (cluster.Access{Env: w.Env}).Server(t.Context(), ""); err == nil {
		t.Error("the address of an enrollment that is gone")
	}
}

// TestAcceptedBy: a cluster that cannot be asked is no error: nothing is known of it.
func TestAcceptedBy(t *testing.T) {
	w := plain(t)
	at, err := cluster.Access{Env: w.Env}.Verified(t.Context(), "")
	must.OK(t, err)
	if accepted := cluster.AcceptedBy(t.Context(), at); accepted == nil {
		t.Error("the cluster that asks for certificates tells nothing")
	}
	for _, proxy := range []string{"http://127.0.0.1:1", ""} {
		other := at
		if other.ProxyURL = proxy; proxy == "" {
			other.CAData = nil // the server must not be trusted
		}
		if accepted := cluster.AcceptedBy(t.Context(), other); accepted != nil {
			t.Errorf("by %q: %+v", proxy, accepted)
		}
	}
}

// TestAnonymous: a cluster is reached without a credential, by its own authority only and
// by the proxy that it names.
func TestAnonymous(t *testing.T) {
	w := plain(t)
	at, err := cluster.Access{Env: w.Env}.Verified(t.Context(), "")
	must.OK(t, err)
	for name, c := range map[string]struct {
		proxy string
		ca    bool
		ok    bool
	}{"direct": {"", true, true}, "by a proxy that is away": {"http://127.0.0.1:1", true, false},
		"of an authority that nobody knows": {"", false, false}} {
		other := at
		if other.ProxyURL = c.proxy; !c.ca {
			other.CAData = nil
		}
		client, err := csr.NewClient(cluster.Anonymous(other))
		if err := whoAmI(t.Context(), client, err); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
