//go:build linux

package discovery

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestFromTokenToIdentity(t *testing.T) {
	l := newLab(t)
	r := l.create(func(r *bootstraptoken.Record) {
		r.Description = "for Jane"
		r.Groups = []string{"system:bootstrappers:kubehsm:test"}
	})
	info, err := discovery.Discover(t.Context(), l.byToken(r.Token))
	must.OK(t, err)
	if info.Server != l.cluster.Server() || !bytes.Contains(l.ca, bytes.TrimSpace(info.CAData)) ||
		info.TLSServerName != "" || info.ProxyURL != "" {
		t.Errorf("discovered %+v", info)
	}
	// What was discovered is good for the next step of a join.
	user, groups, err := l.bearer(info, r.Token)
	must.OK(t, err)
	if user != r.Token.User() {
		t.Errorf("the API server takes the token for %q", user)
	}
	slices.Sort(groups)
	if want := append(r.AllGroups(), "system:authenticated"); !slices.Equal(groups, slices.Sorted(slices.Values(want))) {
		t.Errorf("groups %q", groups)
	}

	o := l.byToken(r.Token)
	o.Pins, o.UnsafeSkipCAVerification = nil, true
	if again, err := discovery.Discover(t.Context(), o); err != nil || !reflect.DeepEqual(again, info) {
		t.Errorf("without pins: %+v, %v", again, err)
	}
}

// TestTokenMadeAfterTheQuestion: the signature is waited for.
func TestTokenMadeAfterTheQuestion(t *testing.T) {
	l := newLab(t)
	token, err := bootstraptoken.Generate()
	must.OK(t, err)
	o := l.byToken(token)
	waited := false
	o.Waiting = func(reason error) {
		if waited || !errors.Is(reason, discovery.ErrUnknownToken) {
			return
		}
		waited = true
		l.create(func(r *bootstraptoken.Record) { r.Token = token })
	}
	if _, err := discovery.Discover(t.Context(), o); err != nil || !waited {
		t.Errorf("%v, waited %v", err, waited)
	}
}

func TestAnonymousAccessOff(t *testing.T) {
	l := newLab(t)
	r := l.create(func(*bootstraptoken.Record) {})
	info, err := discovery.Discover(t.Context(), l.byToken(r.Token))
	must.OK(t, err)
	l.admin("delete", "rolebinding", "-n", "kube-public", "kubeadm:bootstrap-signer-clusterinfo")
	defer l.publish(l.ca)
	l.eventually("the right is withdrawn", func(ctx context.Context) error {
		_, err := discovery.Discover(ctx, l.byToken(r.Token))
		if errors.Is(err, discovery.ErrAnonymous) {
			return nil
		}
		return errors.Join(err, errors.New("still allowed"))
	})
	if _, err := discovery.Refresh(t.Context(), info, discovery.Limits{}); !errors.Is(err, discovery.ErrAnonymous) {
		t.Errorf("refresh: %v", err)
	}
	// A file does not need it.
	o := discovery.Options{File: discovery.Stdin, Stdin: strings.NewReader(l.document(l.ca))}
	if got, err := discovery.Discover(t.Context(), o); err != nil || !reflect.DeepEqual(got, info) {
		t.Errorf("by file: %+v, %v", got, err)
	}
}

// TestExpiry: the cluster's cleaner reads our expiration.
func TestExpiry(t *testing.T) {
	l := newLab(t)
	r := l.create(func(*bootstraptoken.Record) {})
	if _, err := discovery.Discover(t.Context(), l.byToken(r.Token)); err != nil {
		t.Fatal(err)
	}
	r.Expires = time.Now().Add(-time.Minute)
	manifest, err := r.Manifest()
	must.OK(t, err)
	l.apply(string(manifest))
	l.eventually("the expired token is deleted", func(ctx context.Context) error {
		_, err := l.tokens.Get(ctx, r.Token.ID())
		if errors.Is(err, bootstraptoken.ErrNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("still there"))
	})
	l.eventually("its signature is gone", func(ctx context.Context) error {
		o := l.byToken(r.Token)
		o.SignatureWait = time.Nanosecond
		_, err := discovery.Discover(ctx, o)
		if errors.Is(err, discovery.ErrUnknownToken) {
			return nil
		}
		return errors.Join(err, errors.New("still signed"))
	})
	info := cluster.Cluster{Server: l.cluster.Server(), CAData: l.ca}
	if user, _, err := l.bearer(info, r.Token); err == nil {
		t.Errorf("an expired token is still %s", user)
	}
}

func TestTokenLife(t *testing.T) {
	l := newLab(t)
	r := l.create(func(r *bootstraptoken.Record) { r.Description = "first" })
	if err := l.tokens.Create(t.Context(), r); err != nil {
		t.Errorf("the same again: %v", err)
	}
	changed := r
	changed.Description = "second"
	if err := l.tokens.Create(t.Context(), changed); !errors.Is(err, bootstraptoken.ErrExists) {
		t.Errorf("same ID, other terms: %v", err)
	}
	// One made by hand from the manifest, and an impostor whose name is not its ID's.
	byHand, err := bootstraptoken.Generate()
	must.OK(t, err)
	manifest, err := bootstraptoken.Record{Token: byHand, Usages: bootstraptoken.KnownUsages()}.Manifest()
	must.OK(t, err)
	l.apply(string(manifest))
	defer l.admin("delete", "secret", "-n", "kube-system", bootstraptoken.SecretName(byHand.ID()))
	l.apply(strings.Replace(string(manifest), bootstraptoken.SecretName(byHand.ID()), "bootstrap-token-impost", 1))
	defer l.admin("delete", "secret", "-n", "kube-system", "bootstrap-token-impost")

	records, ignored, err := l.tokens.List(t.Context())
	must.OK(t, err)
	for _, want := range []bootstraptoken.Token{r.Token, byHand} {
		if !slices.ContainsFunc(records, func(r bootstraptoken.Record) bool { return r.Token.Equal(want) }) {
			t.Errorf("%s is not listed", want)
		}
	}
	if len(ignored) != 1 || ignored[0].Name != "bootstrap-token-impost" ||
		!errors.Is(ignored[0].Err, bootstraptoken.ErrNotToken) {
		t.Errorf("ignored %+v", ignored)
	}

	nobody, err := l.cluster.KubeconfigFor("nobody")
	must.OK(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", nobody)
	must.OK(t, err)
	theirs, err := bootstraptoken.NewClient(config)
	must.OK(t, err)
	if _, _, err := theirs.List(t.Context()); !errors.Is(err, bootstraptoken.ErrForbidden) {
		t.Errorf("list as nobody: %v", err)
	}
	if err := theirs.Create(t.Context(), r); !errors.Is(err, bootstraptoken.ErrForbidden) {
		t.Errorf("create as nobody: %v", err)
	}

	must.OK(t, l.tokens.Delete(t.Context(), r.Token.ID()))
	if err := l.tokens.Delete(t.Context(), r.Token.ID()); !errors.Is(err, bootstraptoken.ErrNotFound) {
		t.Errorf("delete again: %v", err)
	}
}
