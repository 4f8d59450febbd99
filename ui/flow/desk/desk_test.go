package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

const (
	bindings     = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	roleBindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/dev/rolebindings"
)

// desk is a world whose person is the help desk, admin, with a ticket for jane, and what
// jane has: a request that waits, one that is approved, and rights.
func desk(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "admin")
	s := w.Server
	s.Forbid("get configmaps") // many clusters do
	s.Put(flowtest.Secrets, flowtest.Object{"metadata": flowtest.Object{"name": "bootstrap-token-abcdef",
		"namespace": "kube-system"}, "type": "bootstrap.kubernetes.io/token",
		"data": map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "description": []byte(ticket.Terms{User: "jane"}.Description()),
			"expiration": []byte(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), "usage-bootstrap-signing": []byte("true"),
			"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte(strings.Join(ticket.Terms{User: "jane"}.TokenGroups(), ","))}})
	s.File("jane-1", bootstraptoken.UserPrefix+"abcdef", "jane", nil, func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Groups = ticket.Terms{User: "jane"}.TokenGroups()
		r.Annotations = map[string]string{csr.ReasonAnnotation: "my new card"}
	})
	s.File("jane-2", "jane", "jane", []string{"dev"}, nil)
	s.Issue("jane-2")
	s.File("jane-3", "jane", "jane", nil, func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
			Status: "True"}}
	})
	bind(s, bindings, "ClusterRoleBinding", "own", subject("User", "jane"))
	bind(s, roleBindings, "RoleBinding", "shared", subject("User", "jane"), subject("User", "joe"))
	bind(s, bindings, "ClusterRoleBinding", "all", subject("Group", "dev"))
	return w
}

func subject(kind, name string) flowtest.Object {
	return flowtest.Object{"kind": kind, "name": name, "apiGroup": rbacGroup}
}

func bind(s *flowtest.Server, collection, kind, name string, subjects ...flowtest.Object) {
	s.Put(collection, flowtest.Object{"apiVersion": rbacGroup + "/v1", "kind": kind,
		"metadata": flowtest.Object{"name": name, "namespace": map[string]string{"RoleBinding": "dev"}[kind]},
		"roleRef":  flowtest.Object{"kind": "ClusterRole", "name": "view"}, "subjects": subjects})
}

// look is what the desk sees of a request.
func look(ctx context.Context, w *flowtest.World, name string, checks ...request.Check) (request.TicketLook,
	request.View, error) {
	of := request.TicketLook{}
	v, err := request.NewRequests(w.Env).Look(ctx, "", name, request.LookOptions{Ticket: &of, Checks: checks})
	return of, v, err
}

// TestBootstrapTokens: bootstrap tokens are made, listed and deleted wholly, or not at all.
func TestBootstrapTokens(t *testing.T) {
	token, err := bootstraptoken.Generate()
	must.OK(t, err)
	fresh := bootstraptoken.Record{Token: token, Usages: bootstraptoken.KnownUsages(),
		Groups: []string{"system:bootstrappers:kubehsm"}}
	for _, c := range []flowtest.UseCase{
		{Name: "create", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			v, err := NewBootstrapTokens(w.Env).Create(ctx, "", fresh, true)
			if err == nil && (!strings.Contains(v.Join, "--discovery-token-ca-cert-hash sha256:") || v.Token != token.Reveal() ||
				len(v.Warnings) != 1) {
				err = fmt.Errorf("%+v", v)
			}
			return err
		}, Done: func(t testing.TB, w *flowtest.World) {
			if names := w.Server.Names(flowtest.Secrets); len(names) != 2 {
				t.Errorf("the cluster has %q", names)
			}
		}},
		{Name: "list", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			all, notes, err := NewBootstrapTokens(w.Env).List(ctx, "", false)
			if err == nil && (len(all) != 1 || len(notes) != 0 || strings.Contains(all[0].Token, "0123456789abcdef")) {
				err = fmt.Errorf("%+v, %q", all, notes)
			}
			return err
		}},
		{Name: "delete", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			return NewBootstrapTokens(w.Env).Delete(ctx, "", "abcdef")
		}, Done: func(t testing.TB, w *flowtest.World) {
			if names := w.Server.Names(flowtest.Secrets); len(names) != 0 {
				t.Errorf("the cluster has %q", names)
			}
		}},
	} {
		c.World = desk
		c.Try(t)
	}
	w := desk(t)
	if all, _, err := NewBootstrapTokens(w.Env).List(t.Context(), "", true); err != nil || len(all) != 1 ||
		all[0].Token != "abcdef.0123456789abcdef" {
		t.Errorf("revealed: %+v, %v", all, err)
	}
	w.Server.Put(flowtest.Secrets, flowtest.Object{"metadata": flowtest.Object{"name": "bootstrap-token-broken"},
		"type": "bootstrap.kubernetes.io/token"})
	if all, notes, err := NewBootstrapTokens(w.Env).List(t.Context(), "", false); err != nil || len(all) != 1 ||
		len(notes) != 1 {
		t.Errorf("with one that is none: %+v, %q, %v", all, notes, err)
	}
	w.Server.Put(flowtest.Secrets, flowtest.Object{"metadata": flowtest.Object{"name": "bootstrap-token-foreig",
		"namespace": "kube-system"}, "type": "bootstrap.kubernetes.io/token",
		"data": map[string][]byte{"token-id": []byte("foreig"), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte("system:bootstrappers:a,dev")}})
	if all, notes, err := NewBootstrapTokens(w.Env).List(t.Context(), "", false); err != nil || len(all) != 2 ||
		!strings.Contains(strings.Join(notes, "\n"), `token foreig: unusable bootstrap token terms: group "dev"`) {
		t.Errorf("with an illegal group: %+v, %q, %v", all, notes, err)
	}
	dumb := fresh
	dumb.Usages = []string{"authentication"}
	if _, err := NewBootstrapTokens(w.Env).Create(t.Context(), "", dumb, true); !errors.Is(err,
		bootstraptoken.ErrInvalid) || !strings.Contains(hinting.Of(err), "signing") {
		t.Errorf("to join with, which cannot be: %v", err)
	}
}

// TestObstacles: what keeps a ticket from working is known before it is made: no cluster-info, no
// right to file, none to approve. Where the cluster does not say, nothing is claimed.
func TestObstacles(t *testing.T) {
	w := desk(t)
	said := func() string {
		all, err := NewTickets(w.Env).Obstacles(t.Context(), "", "")
		if err != nil {
			t.Error(err)
		}
		return strings.Join(all, "; ")
	}
	if got := said(); !strings.Contains(got, "nobody can join with a ticket") || strings.Contains(got, "approve") {
		t.Errorf("without cluster-info: %s", got)
	}
	w.Server.Forbid("approve signers")
	if got := said(); strings.Contains(got, "approve") {
		t.Errorf("who may decide on reviews: %s", got)
	}
	w.Server.Forbid("get requestreviews")
	if got := said(); !strings.Contains(got, "you may not approve") {
		t.Errorf("who may not approve: %s", got)
	}
	w.Server.Gone()
	if got := said(); !strings.Contains(got, "did not say whether anybody can join with a ticket: cannot reach") ||
		strings.Contains(got, "publish") {
		t.Errorf("a server that is gone: %s", got)
	}
	if _, err := NewTickets(w.Env).Obstacles(t.Context(), "open", ""); err == nil {
		t.Error("of a cluster that is not verified")
	}
}

// TestMakeTicket: a ticket is in the cluster, or is not shown. Where the cluster may have it all the
// same, see [TestTicketThatWasNotMade].
func TestMakeTicket(t *testing.T) {
	flowtest.UseCase{Name: "make", World: desk,
		Skips:  []string{"gone: get configmaps"}, // the look-up is repeated for 10 seconds
		Passes: append(flowtest.Failing("get configmaps"), "ctrl-c: get configmaps"),
		Leaves: append(flowtest.Failing("create secrets"), "ctrl-c: create secrets"),
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			issued, err := NewTickets(w.Env).Make(ctx, "",
				TicketOptions{Terms: ticket.Terms{User: "joe"}, Name: "joe", TTL: time.Hour})
			if err == nil && (issued.Unproven == "" || issued.Text == "") {
				err = fmt.Errorf("%+v", issued)
			}
			return err
		}}.Try(t)
	w := desk(t)
	before := w.State()
	for name, o := range map[string]TicketOptions{
		"too short":        {Terms: ticket.Terms{User: "joe"}, TTL: time.Second},
		"too long":         {Terms: ticket.Terms{User: "joe"}, TTL: ticket.MaxTTL + 1},
		"for nobody":       {},
		"for a short time": {Terms: ticket.Terms{User: "joe", Lifetime: time.Minute}},
	} {
		if _, err := NewTickets(w.Env).Make(t.Context(), "", o); err == nil || hinting.Of(err) == "" && name != "for nobody" {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	if _, err := NewTickets(w.Env).Make(t.Context(), "open", TicketOptions{Terms: ticket.Terms{User: "joe"}}); err == nil {
		t.Error("for a cluster that is not verified")
	}
	w.Unchanged(before)
	for name, want := range map[string]string{"": "spare", "joe": "joe-spare"} {
		if spare, err := (TicketOptions{Name: name}).ForSpare(); err != nil || spare.Name != want {
			t.Errorf("%q: %q, %v", name, spare.Name, err)
		}
	}
	if _, err := (TicketOptions{Terms: ticket.Terms{Serial: "7"}}).ForSpare(); hinting.Of(err) == "" {
		t.Error("two tickets for one token:", err)
	}
}

// TestApprove: an approval ends its ticket, or says why not. A failure before the approval
// changes nothing.
func TestApprove(t *testing.T) {
	var of request.TicketLook
	var seen request.View
	var done TicketApproval
	scene := func(name string, checks ...request.Check) func(t testing.TB) *flowtest.World {
		return func(t testing.TB) *flowtest.World {
			w := desk(t)
			var err error
			if of, seen, err = look(t.Context(), w, name, checks...); err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
	// approve waits until the cluster has signed the request, or there is nothing to wait for.
	approve := func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) (err error) {
		done, err = NewApprovals(w.Env).Ticket(ctx, of, seen, request.DecideOptions{Words: strings.Join(seen.Words, " ")},
			2*time.Second)
		return err
	}
	signed := scene("jane-1")
	rest := flowtest.Failing("create events", "get certificatesigningrequests", "delete secrets")
	flowtest.UseCase{Name: "ticket", World: func(t testing.TB) *flowtest.World {
		w := signed(t)
		w.Server.Signs(false)
		return w
	},
		Passes: rest, Skips: []string{"gone: get certificatesigningrequests"}, // as after "gone: create events"
		Leaves: append([]string{"cut: update", "ctrl-c: create events", "ctrl-c: get", "ctrl-c: delete"}, rest...),
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			err := approve(ctx, w, p)
			ended := !slices.Contains(w.Server.Names(flowtest.Secrets), "bootstrap-token-abcdef")
			if done.Ended && !ended || !done.Ended && err == nil && len(done.Notes) == 0 {
				t.Errorf("ended %v, said %+v", ended, done)
			}
			return err
		}}.Try(t)
}

// TestBreakGlassApproval: the second person's yes leaves an event. A note says so where it
// could not be written.
func TestBreakGlassApproval(t *testing.T) {
	var seen request.View
	var notes []string
	flowtest.UseCase{Name: "approve", World: func(t testing.TB) *flowtest.World {
		w := desk(t)
		w.Server.File("bg-1", "joe", "joe", []string{request.BreakGlassGroup},
			func(r *certificatesv1.CertificateSigningRequest) {
				r.Annotations = map[string]string{csr.ReasonAnnotation: "everything burns"}
			})
		var err error
		if _, seen, err = look(t.Context(), w, "bg-1", BreakGlassCheck); err != nil || len(seen.Refusals) > 0 {
			t.Fatalf("%q, %v", seen.Refusals, err)
		}
		return w
	},
		Passes: append(flowtest.Failing("create events"), "ctrl-c: create events"),
		Leaves: append(flowtest.Failing("create events"), "cut: update", "ctrl-c: create events"),
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) (err error) {
			_, notes, err = NewApprovals(w.Env).BreakGlass(ctx, "", seen, request.DecideOptions{User: seen.User})
			if err == nil && len(w.Server.Names("/api/v1/namespaces/default/events"))+len(notes) < 1 {
				err = errors.New("no event, and no note")
			}
			return err
		}}.Try(t)
	w := desk(t)
	for name, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"too-long": func(r *certificatesv1.CertificateSigningRequest) {
			*r.Spec.ExpirationSeconds = 7200
			r.Annotations = map[string]string{csr.ReasonAnnotation: "x"}
		},
		"no-reason": nil,
	} {
		w.Server.File(name, "joe", "joe", []string{request.BreakGlassGroup}, change)
		_, v, err := look(t.Context(), w, name, BreakGlassCheck)
		if err != nil || len(v.Refusals) != 1 {
			t.Errorf("%s: %q, %v", name, v.Refusals, err)
		}
		if _, _, err := NewApprovals(w.Env).BreakGlass(t.Context(), "", v, request.DecideOptions{}); err == nil {
			t.Errorf("%s is approved", name)
		}
	}
	if _, v, err := look(t.Context(), w, "jane-1", BreakGlassCheck); err != nil ||
		!slices.ContainsFunc(v.Refusals, func(r string) bool { return strings.Contains(r, "does not ask for the group") }) {
		t.Errorf("another request: %q, %v", v.Refusals, err)
	}
}

// TestAskForBreakGlass: a request is complete and within the rules, or none is made.
func TestAskForBreakGlass(t *testing.T) {
	var got enrolling.Options
	for _, c := range []flowtest.UseCase{
		{Name: "request", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) (err error) {
			got, err = NewBreakGlass(w.Env).Request(ctx, BreakGlassOptions{Reason: "everything burns"})
			return err
		}, Done: func(t testing.TB, _ *flowtest.World) {
			if got.User != "admin" || got.Name != "prod-eu-west-break-glass" ||
				!slices.Equal(got.Groups, []string{request.BreakGlassGroup}) ||
				got.Expiration != BreakGlassLifetime || !got.KeepCurrent {
				t.Errorf("%+v", got)
			}
		}},
	} {
		c.World = desk
		c.Try(t)
	}
	w := desk(t)
	b, ctx := NewBreakGlass(w.Env), t.Context()
	for name, c := range map[string]struct {
		do   func() error
		want error
		hint string
	}{
		"no reason": {func() error { _, err := b.Request(ctx, BreakGlassOptions{Reason: " "}); return err }, ErrNoReason, "--reason"},
		"too long": {func() error {
			_, err := b.Request(ctx, BreakGlassOptions{Reason: "x", Lifetime: 2 * time.Hour})
			return err
		}, request.ErrForecast, "1 h"},
		"no context": {func() error { _, err := b.Request(ctx, BreakGlassOptions{Reason: "x", Context: "none"}); return err }, kubeconfig.ErrNoContext, ""},
	} {
		if err := c.do(); err == nil || c.want != nil && !errors.Is(err, c.want) ||
			!strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	if asked := w.Server.Asked(); len(asked) > 0 {
		t.Errorf("the cluster was asked for %q", asked)
	}
}

// TestBreakGlassEnrolled: an enrollment for emergencies is listed with the date until which it is good.
func TestBreakGlassEnrolled(t *testing.T) {
	w := desk(t)
	en := w.Enroll("night", "jane", request.BreakGlassGroup)
	b := NewBreakGlass(w.Env)
	all, err := b.List()
	if err != nil || len(all) != 1 || all[0].State != "live" || all[0].Name != "night" {
		t.Errorf("%+v, %v", all, err)
	}
	en.Name = "new" // the enrollment has no certificate yet
	must.OK(t, w.Env.Enrollments().Save(en))
	if all, err := b.List(); err != nil || len(all) != 2 || all[0].State != "expired" {
		t.Errorf("%+v, %v", all, err)
	}
}
