package enroll

import (
	"context"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

func testTicket(t *testing.T) ticket.Ticket {
	t.Helper()
	token, err := bootstraptoken.Generate()
	must.OK(t, err)
	return ticket.Ticket{
		Terms: ticket.Terms{User: "jane", Groups: []string{"dev"}, Lifetime: time.Hour,
			Policy: ticket.Attested | ticket.TouchCached},
		Server: "https://10.0.0.1:6443", Pins: []discovery.Pin{{1}}, Token: token, Expires: time.Now().Add(time.Hour),
		Name: "Prod EU",
	}
}

// TestJoinByRoster: who joins without a name gets the one that the roster gives the token to, with the groups that
// were not named; a token that is nobody's there, or a roster that cannot be read, is said.
func TestJoinByRoster(t *testing.T) {
	const tokens = "/apis/kubehsm.github.io/v1alpha1/namespaces/kubehsm-system/hardwaretokens"
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{Serial: "1234567"}, "system:bootstrap:abcdef")
	secret, err := bootstraptoken.Generate()
	must.OK(t, err)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Server.Certificate().Raw})
	complete := func(o enrolling.Options) (enrolling.Options, error) {
		o.Name, o.Join = "prod", &enrolling.Join{Endpoint: w.Server.URL, Token: secret,
			Found: &cluster.Cluster{Server: w.Server.URL, CAData: authority}}
		return NewEnroller(w.Env).Complete(t.Context(), o)
	}
	put := func(spec flowtest.Object) {
		w.Server.Put(tokens, flowtest.Object{"apiVersion": "kubehsm.github.io/v1alpha1", "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": "1234567", "namespace": "kubehsm-system"}, "spec": spec})
	}
	put(flowtest.Object{"owner": "jane", "groups": []any{"dev", "ops"}})
	for what, asked := range map[string]struct{ groups, want []string }{
		"no groups": {nil, []string{"dev", "ops"}},
		"a group":   {[]string{"dev"}, []string{"dev"}},
	} {
		o, err := complete(enrolling.Options{Groups: asked.groups})
		if err != nil || o.User != "jane" || !slices.Equal(o.Groups, asked.want) {
			t.Errorf("%s: %q in %q, %v", what, o.User, o.Groups, err)
		}
	}
	if o, err := complete(enrolling.Options{User: "joe"}); err != nil || o.User != "joe" || len(o.Groups) != 0 {
		t.Errorf("a name of their own: %q in %q, %v", o.User, o.Groups, err)
	}
	for what, spec := range map[string]flowtest.Object{
		"stock": {"state": "Stock"}, "an admin": {"owner": "system:admin"}, "a placeholder": {"owner": "{serial}"},
	} {
		want := ErrNoUser
		if what == "stock" {
			want = request.ErrNotListed
		}
		put(spec)
		if _, err := complete(enrolling.Options{}); !errors.Is(err, want) || hinting.Of(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.Server.Delete(tokens, "1234567")
	if _, err := complete(enrolling.Options{}); !errors.Is(err, request.ErrNotListed) ||
		!strings.Contains(hinting.Of(err), "serial number") {
		t.Errorf("a token that is not listed: %v", err)
	}
	w.Server.Forbid("get hardwaretokens")
	if _, err := complete(enrolling.Options{}); !errors.Is(err, ErrNoUser) ||
		!strings.Contains(hinting.Of(err), "--user") {
		t.Errorf("a roster that cannot be read: %v", err)
	}
}

// The record of a join holds no secret, and a run that needs it again says so.
func TestJoinRecord(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	k := testTicket(t)
	k.Policy = 0
	var o enrolling.Options
	must.OK(t, o.UseTicket(k))
	o, err := NewEnroller(e).Complete(ctx, o)
	must.OK(t, err)
	if err := NewJoins(e).Begun(o.Name); !errors.Is(err, ErrNoJoin) || !strings.Contains(hinting.Of(err), "--ticket") {
		t.Errorf("before it is begun: %v", err)
	}
	r := begin(t, e, o, &typist{})
	r.record.Cluster = cluster.Cluster{Server: k.Server}
	must.OK(t, enrolling.NewStore(e).Save(r.record))
	if err := NewJoins(e).Begun(o.Name); err != nil {
		t.Error(err)
	}
	again, err := NewEnroller(e).Complete(ctx, enrolling.Options{Name: "prod-eu"})
	must.OK(t, err)
	if again.Join == nil || again.Join.Endpoint != k.Server || !again.Join.Token.IsZero() || len(again.Join.Pins) != 1 ||
		again.Context != "" {
		t.Fatalf("from the record: %+v", again.Join)
	}
	j, err := NewEnroller(e).recordFor(ctx, again)
	must.OK(t, err)
	if _, err := NewEnroller(e).filer(ctx, j); !errors.Is(err, enrolling.ErrTokenNeeded) ||
		!strings.Contains(hinting.Of(err), "kubehsm join --name prod-eu") {
		t.Errorf("without the token: %v", err)
	}
	if steps := j.Options.Steps(); steps[0] != enrolling.StepDiscover || len(steps) != len(enrolling.Steps())+1 {
		t.Errorf("steps %v", steps)
	}
	other := testTicket(t)
	other.Server, other.Policy = "https://10.0.0.2:6443", 0
	var elsewhere enrolling.Options
	must.OK(t, elsewhere.UseTicket(other))
	if elsewhere, err = NewEnroller(e).Complete(ctx, elsewhere); err != nil {
		t.Fatal(err)
	}
	var conflict *enrolling.ConflictError
	if _, err := NewEnroller(e).recordFor(ctx, elsewhere); !errors.As(err, &conflict) || conflict.Option != "cluster" ||
		!strings.Contains(conflict.Hint(), "kubehsm join") {
		t.Errorf("another cluster: %v", err)
	}
	line := o.Command("")
	if !strings.HasPrefix(line, "kubehsm join --name prod-eu --ticket - ") ||
		strings.Contains(line, string(k.Token.Key())) {
		t.Errorf("the command: %s", line)
	}
}

func TestJoinRefusesTokens(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	k := testTicket(t)
	k.Serial, k.Policy = "999", 0
	var o enrolling.Options
	must.OK(t, o.UseTicket(k))
	if _, err := NewEnroller(e).Complete(context.Background(), o); !errors.Is(err, hsm.ErrNoToken) ||
		!strings.Contains(err.Error(), "999") {
		t.Errorf("another token is there: %v", err)
	}
	several, _ := flowtest.Env(t, "blue", "red")
	o.Join.Serial = ""
	if _, err := NewEnroller(several).Complete(context.Background(), o); !errors.Is(err, hsm.ErrSeveralTokens) ||
		!strings.Contains(hinting.Of(err), "--hsm") || strings.Contains(hinting.Of(err), "--token") {
		t.Errorf("several tokens: %v, hint %q", err, hinting.Of(err))
	}
}
