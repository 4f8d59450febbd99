package contexts

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// enrolled returns an enrollment called prod-hsm at a cluster, with its context
// and the record of its progress.
func enrolled(t *testing.T, at cluster.Cluster) (*env.Env, enrollment.Enrollment) {
	t.Helper()
	e, fake := flowtest.Env(t)
	card := fake.Add(hsmtest.FakeOptions{Label: "blue"})
	slot, err := token.Keys{Env: e}.Generate(t.Context(), card.Info().URI(), hsm.GenerateOptions{Label: "prod-hsm"},
		hsmtest.Typing(t, card.PIN()))
	must.OK(t, err)
	hash, err := hsm.Fingerprint(slot.Key.Public)
	must.OK(t, err)
	en := enrollment.Enrollment{Name: "prod-hsm", Cluster: at, Key: slot.URI, KeyHash: hash, User: "jane",
		Created: time.Now().UTC()}
	j := &enrolling.Progress{Cluster: at, Request: enrolling.Request{Key: slot.URI, KeyHash: hash}}
	j.Options.Name, j.Options.User, j.Options.Token = "prod-hsm", "jane", card.Info().URI()
	err = errors.Join(e.Dirs.Prepare(), e.Enrollments().Save(en), enrolling.NewStore(e).Save(j))
	if err == nil {
		err = set(t.Context(), e)
	}
	must.OK(t, err)
	return e, en
}

func set(ctx context.Context, e *env.Env) error {
	change, err := New(e).Set(ctx, "prod-hsm", true, false)
	if err != nil {
		return err
	}
	return change.Apply(ctx)
}

// listed are the names of the contexts, the current one with a star.
func listed(t *testing.T, e *env.Env) (names []string) {
	t.Helper()
	all, err := New(e).List(t.Context())
	must.OK(t, err)
	for _, v := range all {
		if v.Current {
			v.Name += "*"
		}
		names = append(names, v.Name)
	}
	return names
}

// TestUnenroll: the entry, the enrollment and its progress go. Where the
// kubeconfig has changed since it was looked at, nothing goes.
func TestUnenroll(t *testing.T) {
	e, _ := enrolled(t, cluster.Cluster{Server: "https://10.0.0.1:6443"})
	seen, err := New(e).Unenrollment(t.Context(), "prod-hsm", nil)
	must.OK(t, err)
	if _, err := New(e).Unenrollment(t.Context(), "other", nil); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("an enrollment that is not there: %v", err)
	}
	must.OK(t, set(t.Context(), e))
	text, err := os.ReadFile(e.Kubeconfig)
	must.OK(t, err)
	must.OK(t, os.WriteFile(e.Kubeconfig, append(text, "# edited\n"...), 0o600))
	if err := New(e).Unenroll(t.Context(), seen, nil); !errors.Is(err, kubeconfig.ErrChanged) {
		t.Fatalf("a kubeconfig that has changed: %v", err)
	}
	if _, err := e.Enrollments().Load("prod-hsm"); err != nil {
		t.Fatalf("the enrollment went: %v", err)
	}
	if seen, err = New(e).Unenrollment(t.Context(), "prod-hsm", nil); err == nil {
		err = New(e).Unenroll(t.Context(), seen, nil)
	}
	must.OK(t, err)
	if _, err := e.Enrollments().Load("prod-hsm"); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("the enrollment: %v", err)
	}
	if _, err := enrolling.NewStore(e).Load("prod-hsm"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its progress: %v", err)
	}
	if now := listed(t, e); slices.Contains(now, "prod-hsm") || slices.Contains(now, "prod-hsm*") {
		t.Errorf("its context: %q", now)
	}
}

// TestMoveServer: an enrollment follows its cluster only to where the enrolled
// authority answers.
func TestMoveServer(t *testing.T) {
	old := bridgetest.New(t, bridgetest.Options{})
	moved := bridgetest.New(t, bridgetest.Options{Like: old})
	foreign := bridgetest.New(t, bridgetest.Options{})
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		name, server string
		ctx          context.Context
		want         error
	}{
		{"proven", moved.URL, t.Context(), nil},
		{"another cluster", foreign.URL, t.Context(), ErrUnproven},
		{"nobody there", "https://127.0.0.1:1", t.Context(), ErrUnproven},
		{"ctrl-c", moved.URL, cancelled, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := enrolled(t, cluster.Cluster{Server: old.URL, CAData: old.CAPEM, Direct: true})
			m, err := New(e).MoveServer(c.ctx, "prod-hsm", c.server)
			if err == nil {
				if m.Proof() != "a certificate of the authority that you enrolled" {
					t.Errorf("the move is proven by %s", m.Proof())
				}
				err = m.ApplyAll(c.ctx, hsmtest.NewScript(t, hsmtest.PIN("123456")).Lax())
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			leads := old.URL
			if c.want == nil {
				leads = moved.URL
			}
			en, err := e.Enrollments().Load("prod-hsm")
			j, jerr := enrolling.NewStore(e).Load("prod-hsm")
			must.OK(t, errors.Join(err, jerr))
			if en.Cluster.Server != leads || j.Cluster.Server != leads {
				t.Errorf("the enrollment leads to %s, its progress to %s", en.Cluster.Server, j.Cluster.Server)
			}
		})
	}
}

// TestRefreshGone: where the cluster does not answer, nothing changes and the
// next step is named.
func TestRefreshGone(t *testing.T) {
	e, before := enrolled(t, cluster.Cluster{Server: "https://127.0.0.1:1", Direct: true})
	e.RequestTimeout = 200 * time.Millisecond // the call is repeated until then
	_, err := New(e).Refresh(t.Context(), "prod-hsm")
	if err == nil || !strings.Contains(hinting.Of(err), "`kubehsm kubeconfig refresh prod-hsm --server URL`") {
		t.Errorf("%v (hint: %s)", err, hinting.Of(err))
	}
	if now, err := e.Enrollments().Load("prod-hsm"); err != nil || now.Cluster.Server != before.Cluster.Server {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestMigration: whom a credential in a file stands for, as the cluster tells it.
func TestMigration(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(context.CancelFunc, *flowtest.Server)
		want   error
	}{
		{"admitted", nil, nil},
		{"denied", func(_ context.CancelFunc, s *flowtest.Server) {
			s.Break(http.StatusUnauthorized)
		}, apierror.ErrUnauthorized},
		{"API server gone", func(_ context.CancelFunc, s *flowtest.Server) { s.Close() }, apierror.ErrUnreachable},
		{"ctrl-c", func(stop context.CancelFunc, _ *flowtest.Server) { stop() }, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := flowtest.Env(t)
			server := flowtest.New(t, "jane", "dev", "system:authenticated")
			flowtest.PointAt(t, e, server.Server)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.before != nil {
				c.before(stop, server)
			}
			m, err := New(e).Migration(ctx, "")
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want != nil {
				return
			}
			var o enrolling.Options
			m.Fill(&o)
			if o.Context != "Prod/EU west" || o.User != "jane" || !slices.Equal(o.Groups, []string{"dev"}) {
				t.Errorf("%+v", o)
			}
			if remarks := m.Remarks(); len(remarks) != 2 || !strings.Contains(remarks[1], ": open;") {
				t.Errorf("%q", remarks)
			}
		})
	}
}

// TestMigrationOfOurs: what signs in with a token already is not migrated.
func TestMigrationOfOurs(t *testing.T) {
	e, _ := enrolled(t, cluster.Cluster{Server: "https://10.0.0.1:6443"})
	if me, err := New(e).Subject(t.Context(), "prod-hsm"); err != nil || me.User == "" {
		t.Errorf("the user of an enrolled context: %+v, %v", me, err)
	}
	_, err := New(e).Migration(t.Context(), "prod-hsm")
	if err == nil || !strings.Contains(err.Error(), "signs in with a token already") {
		t.Errorf("%v", err)
	}
}

// TestMeant: a command without a name means the context's enrollment, or the only one there
// is; where nothing tells which, all are named.
func TestMeant(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	if _, err := Meant(t.Context(), w.Env, "", ""); err == nil || hinting.Of(err) == "" {
		t.Errorf("nothing is enrolled: %v", err)
	}
	first := w.Enroll("prod-hsm", "jane", "dev")
	is := func(name, kubeContext, want string) {
		t.Helper()
		if e, err := Meant(t.Context(), w.Env, name, kubeContext); err != nil || e.Name != want {
			t.Errorf("%q, %q: %s, %v", name, kubeContext, e.Name, err)
		}
	}
	is("", "", "prod-hsm")
	first.Name = "other-hsm"
	must.OK(t, w.Env.Enrollments().Save(first))
	if _, err := Meant(t.Context(), w.Env, "", ""); !errors.Is(err, ErrSeveral) ||
		!strings.Contains(err.Error(), "other-hsm prod-hsm") {
		t.Errorf("several: %v", err)
	}
	is("other-hsm", "", "other-hsm")
	must.OK(t, set(t.Context(), w.Env))
	is("", "", "prod-hsm")
	is("", "prod-hsm", "prod-hsm")
	if _, err := Meant(t.Context(), w.Env, "none", ""); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}
