package enroll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

func TestComplete(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	got, err := NewEnroller(e).Complete(context.Background(), enrolling.Options{User: "jane"})
	must.OK(t, err)
	if got.Context != "Prod/EU west" || got.Name != "prod-eu-west-hsm" || got.Token.Token != "blue" ||
		got.SignerName != csr.ClientSigner || got.Generate.Algorithm != hsm.ECDSAP256 || got.Generate.Label != got.Name {
		t.Errorf("defaults: %+v", got)
	}
}

// TestCompleteUser: without a name, the certificate is for whom the context signs in as, without
// the groups that Kubernetes itself gives.
func TestCompleteUser(t *testing.T) {
	for user, want := range map[string]string{"jane": "jane", "system:serviceaccount:ci:robot": ""} {
		w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, user, "dev", "system:authenticated", "system:masters")
		got, err := NewEnroller(w.Env).Complete(t.Context(), enrolling.Options{})
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), user) || hint.Of(err) == ""):
			t.Errorf("%s: %+v, %v", user, got, err)
		case want != "" && (err != nil || got.User != want || !slices.Equal(got.Groups, []string{"dev"})):
			t.Errorf("%s: %s in %q, %v", user, got.User, got.Groups, err)
		}
		got, err = NewEnroller(w.Env).Complete(t.Context(), enrolling.Options{User: "joe"})
		if err != nil || len(got.Groups) > 0 {
			t.Errorf("somebody else: in %q, %v", got.Groups, err)
		}
	}
}

func TestCompleteRefuses(t *testing.T) {
	ctx := context.Background()
	two, _ := flowtest.Env(t, "blue", "red")
	none, _ := flowtest.Env(t)
	one, _ := flowtest.Env(t, "blue")
	for _, tc := range []struct {
		name string
		env  *env.Env
		o    enrolling.Options
		want error
		text string
	}{
		{"two tokens and none named", two, enrolling.Options{User: "jane"}, hsm.ErrSeveralTokens, ""},
		{"no token", none, enrolling.Options{User: "jane"}, hsm.ErrNoToken, ""},
		{"no user", one, enrolling.Options{}, nil, "no user name"},
		{"system:masters", one, enrolling.Options{User: "jane", Groups: []string{"system:masters"}}, nil, "system:masters"},
		{"too short", one, enrolling.Options{User: "jane", Expiration: time.Minute}, nil, "not between 10 min"},
		{"bad name", one, enrolling.Options{User: "jane", Name: "../x"}, enrollment.ErrInvalid, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewEnroller(tc.env).Complete(ctx, tc.o)
			if err == nil {
				t.Fatal("no error")
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("error %v does not wrap %v", err, tc.want)
			}
			if !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v does not say %q", err, tc.text)
			}
		})
	}
}

func TestRecordRefusesOtherOptions(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	must.OK(t, e.Dirs.Prepare())
	must.OK(t, home.MakeDir(e.ProgressDir()))
	first, err := NewEnroller(e).Complete(ctx, enrolling.Options{User: "jane", KeepCurrent: true})
	must.OK(t, err)
	if _, err := NewEnroller(e).open(ctx, first); err != nil {
		t.Fatal(err)
	}
	again, err := NewEnroller(e).Complete(ctx, enrolling.Options{Name: first.Name})
	if err != nil {
		t.Fatalf("the name alone does not resume: %v", err)
	}
	if again.User != "jane" || !again.KeepCurrent || again.Context != first.Context ||
		again.Token.String() != first.Token.String() {
		t.Errorf("resumed with %+v", again)
	}
	other, err := NewEnroller(e).Complete(ctx, enrolling.Options{Name: first.Name, User: "joe"})
	must.OK(t, err)
	var conflict *enrolling.ConflictError
	if _, err := NewEnroller(e).recordFor(ctx, other); !errors.As(err, &conflict) || conflict.Option != "user" {
		t.Errorf("another user: %v", err)
	}
	other.Restart = true
	if _, err := NewEnroller(e).recordFor(ctx, other); err != nil {
		t.Errorf("restart: %v", err)
	}
	list, err := enrolling.NewStore(e).Unfinished(ctx)
	if err != nil || len(list) != 1 || list[0].Options.Name != first.Name {
		t.Errorf("unfinished: %v, %v", list, err)
	}
}

// TestUnverifiedCluster: a cluster that its context does not verify is enrolled
// only by its host's name, and a cluster that another enrollment does not verify
// is asked about anew.
func TestUnverifiedCluster(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	for _, accept := range []string{"", "10.0.0.2", "10.0.0.2:443", "10.0.0.1:6443", "*"} {
		j := &enrolling.Progress{Options: enrolling.Options{Context: "open", AcceptUnverified: accept}}
		var unverified *cluster.UnverifiedError
		err := NewEnroller(e).readCluster(t.Context(), j)
		if !errors.As(err, &unverified) || unverified.Host != "10.0.0.2:6443" || j.Cluster.Server != "" ||
			!strings.Contains(hint.Of(err), "--accept-risk unverified:10.0.0.2:6443") {
			t.Errorf("%q: %v, %+v", accept, err, j.Cluster)
		}
	}
	j := &enrolling.Progress{Options: enrolling.Options{Context: "open", AcceptUnverified: "10.0.0.2:6443"}}
	if err := NewEnroller(e).readCluster(t.Context(), j); err != nil || !j.Cluster.InsecureSkipTLSVerify ||
		len(j.Cluster.CAData) > 0 {
		t.Errorf("%v, %+v", err, j.Cluster)
	}
}

func TestNameFor(t *testing.T) {
	for in, want := range map[string]string{
		"prod": "prod-hsm", "arn:aws:eks:eu:1:cluster/x": "arn-aws-eks-eu-1-cluster-x-hsm",
		"..": "hsm", "Ünïcode": "n-code-hsm", strings.Repeat("a", 80): strings.Repeat("a", 59) + "-hsm",
	} {
		got := enrolling.NameFor(in)
		if got != want {
			t.Errorf("nameFor(%q) = %q, want %q", in, got, want)
		}
		if err := enrollment.ValidName(got); err != nil {
			t.Errorf("nameFor(%q) = %q: %v", in, got, err)
		}
	}
}
