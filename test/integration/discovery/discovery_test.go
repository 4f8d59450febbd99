//go:build linux

package discovery

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/test/must"
)

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
