//go:build linux

// Package discovery tests discovery and bootstrap tokens on a real control
// plane: the signer, the authenticator and the cleaner are upstream's.
package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestMain(m *testing.M) { os.Exit(controlplane.Main(m)) }

// patience bounds every wait: generous, since the machine is shared.
const patience = 2 * time.Minute

// lab is the shared control plane, with a cluster-info as kubeadm makes it.
type lab struct {
	t       *testing.T
	cluster *controlplane.Cluster
	ca      []byte
	tokens  *bootstraptoken.Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, cluster: controlplane.ForTest(t)}
	var err error
	if l.ca, err = os.ReadFile(l.cluster.CAFile()); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.cluster.AdminKubeconfig())
	must.OK(t, err)
	if l.tokens, err = bootstraptoken.NewClient(config); err != nil {
		t.Fatal(err)
	}
	l.publish(l.ca)
	return l
}

func (l *lab) apply(manifest string) {
	l.t.Helper()
	must.OK(l.t, l.cluster.Apply(l.t.Context(), manifest))
}

func (l *lab) admin(args ...string) string {
	l.t.Helper()
	out, err := l.cluster.Admin(l.t.Context(), "", args...)
	must.OK(l.t, err)
	return out
}

func (l *lab) document(ca []byte) string { return controlplane.InfoDocument(l.cluster.Server(), ca) }

// publish replaces the kubeconfig of cluster-info, and has everybody read it; the
// signer signs it anew.
func (l *lab) publish(ca []byte) {
	l.t.Helper()
	// kubectl apply makes the namespace's absence at start an error to retry.
	l.eventually("publish cluster-info", func(ctx context.Context) error {
		return l.cluster.PublishDocument(ctx, l.document(ca))
	})
}

// eventually repeats try until it succeeds.
func (l *lab) eventually(what string, try func(context.Context) error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			l.t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// create makes a token in the cluster, and takes it away after the test.
func (l *lab) create(change func(*bootstraptoken.Record)) bootstraptoken.Record {
	l.t.Helper()
	token, err := bootstraptoken.Generate()
	must.OK(l.t, err)
	r := bootstraptoken.Record{Token: token, Usages: bootstraptoken.KnownUsages()}
	if r.Expires, err = bootstraptoken.ExpiresIn(time.Now(), time.Hour); err != nil {
		l.t.Fatal(err)
	}
	change(&r)
	must.OK(l.t, l.tokens.Create(l.t.Context(), r))
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.tokens.Delete(ctx, token.ID()); err != nil && !errors.Is(err, bootstraptoken.ErrNotFound) {
			l.t.Error(err)
		}
	})
	return r
}

func (l *lab) pins() []discovery.Pin {
	l.t.Helper()
	pins, err := discovery.PinsOf(l.ca)
	must.OK(l.t, err)
	return pins
}

// byToken starts from a token as the join command has it: bare address, pins.
func (l *lab) byToken(token bootstraptoken.Token) discovery.Options {
	l.t.Helper()
	u, err := url.Parse(l.cluster.Server())
	must.OK(l.t, err)
	return discovery.Options{
		Endpoint: u.Host, Token: token, Pins: l.pins(), SignatureWait: patience, Limits: discovery.Limits{Timeout: patience},
	}
}

// bearer is who the API server takes a token's bearer for.
func (l *lab) bearer(info cluster.Cluster, token bootstraptoken.Token) (string, []string, error) {
	client, err := rest.HTTPClientFor(&rest.Config{
		Host: info.Server, TLSClientConfig: rest.TLSClientConfig{CAData: info.CAData}, BearerToken: token.Reveal(),
	})
	if err != nil {
		return "", nil, err
	}
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost,
		info.Server+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	if err != nil {
		return "", nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close() // only read from
	if resp.StatusCode != http.StatusCreated {
		return "", nil, errors.New(resp.Status)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Groups   []string
			}
		}
	}
	err = json.NewDecoder(resp.Body).Decode(&review)
	return review.Status.UserInfo.Username, review.Status.UserInfo.Groups, err
}
