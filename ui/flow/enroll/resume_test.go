package enroll

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// What stands in the way of a key is mended as the hint says: with --key.
func TestOccupiedThenKey(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	token, err := e.Drivers.Open(ctx, hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"})
	if err != nil {
		t.Fatal(err)
	}
	there, err := token.Generate(ctx, hsm.GenerateOptions{Label: "prod-hsm"}, &typist{})
	if err != nil {
		t.Fatal(err)
	}
	token.Close()
	first := begin(t, e, enrolling.Options{Name: "prod-hsm", User: "jane"}, &typist{})
	if _, err := (keyMaker{first}).make(ctx); !errors.Is(err, hsm.ErrOccupied) {
		t.Fatalf("a key in the way: %v", err)
	}
	second := begin(t, e, enrolling.Options{Name: "prod-hsm", Key: there.URI}, &typist{})
	if out, err := (keyMaker{second}).make(ctx); err != nil || !out.reused {
		t.Errorf("with --key: %+v, %v", out, err)
	}
}

// Until there is a key, its policies are those asked for last; then they are
// the key's own, and asking for others must not seem to work.
func TestPoliciesOfALaterRun(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	o := enrolling.Options{Name: "prod-hsm", User: "jane"}
	begin(t, e, o, &typist{})
	o.Generate.Touch = hsm.TouchCached
	second := begin(t, e, o, &typist{})
	if got := second.record.Options.Generate.Touch; got != hsm.TouchCached {
		t.Errorf("before there is a key: touch policy %v", got)
	}
	second.record.Options.Generate.Touch = hsm.TouchDefault // PKCS#11 tokens have no touch policy
	if _, err := (keyMaker{second}).make(ctx); err != nil {
		t.Fatal(err)
	}
	if err := enrolling.NewStore(e).Save(second.record); err != nil {
		t.Fatal(err)
	}
	other := second.record.Request.Key
	other.ID = []byte("another")
	for option, o := range map[string]enrolling.Options{
		"touch policy": {Name: o.Name, Generate: hsm.GenerateOptions{Touch: hsm.TouchAlways}},
		"PIN policy":   {Name: o.Name, Generate: hsm.GenerateOptions{PIN: hsm.PINAlways}},
		"key":          {Name: o.Name, Key: other},
	} {
		o, err := NewEnroller(e).Complete(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		var conflict *enrolling.ConflictError
		if _, err := NewEnroller(e).recordFor(ctx, o); !errors.As(err, &conflict) || conflict.Option != option {
			t.Errorf("another %s once the key is made: %v", option, err)
		}
	}
}

// Until the token is found, it is the one asked for last.
func TestTokenOfALaterRun(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue", "red")
	o := enrolling.Options{Name: "prod-hsm", User: "jane", Token: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"}}
	for i, name := range []string{"blue", "red", "blue"} {
		o.Token.Token = name
		o, err := NewEnroller(e).Complete(ctx, o)
		if err == nil && i == 0 {
			err = errors.Join(e.Dirs.Prepare(), home.MakeDir(e.ProgressDir()))
		}
		if err != nil {
			t.Fatal(err)
		}
		if j, err := NewEnroller(e).open(ctx, o); err != nil || j.Options.Token.Token != name {
			t.Errorf("run %d works with %+v, want %s (%v)", i, j, name, err)
		}
	}
}

// Until there is a key, the cluster is the one that the context names now: the
// request is filed there.
func TestClusterOfALaterRun(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	o := enrolling.Options{Name: "prod-hsm", User: "jane"}
	begin(t, e, o, &typist{})
	moved := strings.Replace(flowtest.Kubeconfig, "https://10.0.0.1:6443", "https://10.0.0.9:6443", 1)
	if err := os.WriteFile(e.Kubeconfig, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	second := begin(t, e, o, &typist{})
	if got := second.record.Cluster.Server; got != "https://10.0.0.9:6443" {
		t.Errorf("before there is a key: %s", got)
	}
}
