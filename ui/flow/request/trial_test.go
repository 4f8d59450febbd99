package request

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// keyed is a world with a key in 9a, whose person is jane.
func keyed(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Generate(hsm.GenerateOptions{Slot: "9a"})
	return w
}

// options are for a request with that key.
func options(w *flowtest.World) enrolling.Options {
	o := enrolling.Options{User: "jane", Key: w.Card.Info().URI(), SignerName: csr.ClientSigner, AcceptForecast: true}
	o.Key.Slot = "9a"
	return o
}

// filed is keyed with a request "mine" that was filed from here.
func filed(t testing.TB) *flowtest.World {
	t.Helper()
	w := keyed(t)
	if _, err := NewOwn(w.Env).Create(t.Context(), "mine", options(w), hsmtest.Typing(t, w.Card.PIN())); err != nil {
		t.Fatal(err)
	}
	return w
}

// unfiled is keyed with a request "mine" that could not be filed.
func unfiled(t testing.TB) *flowtest.World {
	t.Helper()
	w := keyed(t)
	w.Server.Fail(500, "create certificatesigningrequests")
	if _, err := NewOwn(w.Env).Create(t.Context(), "mine", options(w), hsmtest.Typing(t, w.Card.PIN())); err == nil {
		t.Fatal("the request was filed")
	}
	w.Server.Before(nil)
	return w
}

func requests(w *flowtest.World) string { return strings.Join(w.Server.Names(flowtest.Requests), " ") }

// TestOwn: a request is signed, recorded and filed, in that order. Wherever that fails, the
// same command files it the second time, and only once.
func TestOwn(t *testing.T) {
	for _, c := range []flowtest.UseCase{
		{Name: "create", World: keyed, Answers: []hsmtest.Answer{hsmtest.PIN("123456")}, Resumes: true,
			Leaves: append(flowtest.Failing("create certificatesigningrequests"), "ctrl-c: create certificatesigningrequests"),
			Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
				v, err := NewOwn(w.Env).Create(ctx, "mine", options(w), p)
				if err == nil && (v.User != "jane" || v.State != csr.Pending.String()) {
					err = fmt.Errorf("%+v", v)
				}
				return err
			}},
		{Name: "resume", World: unfiled, Resumes: true, Leaves: []string{"cut: create", "ctrl-c: create"},
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				_, err := NewOwn(w.Env).Resume(ctx, "", "mine")
				return err
			}},
		{Name: "list", World: filed, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			all, err := NewOwn(w.Env).List(ctx, "")
			if len(all) != 1 || err == nil && all[0].State != csr.Pending.String() || err != nil &&
				all[0].State != StateUnknown {
				t.Errorf("%+v, %v", all, err)
			}
			return err
		}},
		{Name: "cancel", World: filed, Resumes: true, Leaves: []string{"cut: delete"},
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				err := NewOwn(w.Env).Cancel(ctx, "", "mine")
				if errors.Is(err, csr.ErrNotFound) && requests(w) == "" {
					err = nil // the request is withdrawn already
				}
				return err
			}, Done: func(t testing.TB, w *flowtest.World) {
				if requests(w) != "" {
					t.Errorf("left: %s", requests(w))
				}
			}},
		{Name: "wait", World: func(t testing.TB) *flowtest.World {
			w := filed(t)
			w.Server.Issue("mine")
			return w
		}, Passes: []string{"500", "cut"}, Skips: []string{"gone"}, // the wait has no end
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				pem, err := NewOwn(w.Env).Wait(ctx, "", "mine", func(string) {})
				if err == nil && len(pem) == 0 {
					err = errors.New("no certificate")
				}
				return err
			}},
	} {
		c.Try(t)
	}
}

// TestForecastOfOwn: a request that is certain to be refused is not filed.
func TestForecastOfOwn(t *testing.T) {
	w := keyed(t)
	w.Server.Forbid("create certificatesigningrequests", "*")
	o := options(w)
	o.AcceptForecast, o.Groups = false, []string{"system:masters"}
	if _, err := NewOwn(w.Env).Create(t.Context(), "", o, hsmtest.NewScript(t)); !errors.Is(err, ErrForecast) ||
		requests(w) != "" {
		t.Errorf("%v; filed %s", err, requests(w))
	}
	points, err := NewOwn(w.Env).Forecast(t.Context(), o)
	if err != nil || len(points) == 0 {
		t.Errorf("%+v, %v", points, err)
	}
}

// TestOwnRefusals: requests of others are left alone, and missing ones are an error.
func TestOwnRefusals(t *testing.T) {
	w := filed(t)
	w.Server.File("joes", "joe", "joe", nil, nil)
	f, ctx, before := NewOwn(w.Env), t.Context(), w.State()
	p := hsmtest.NewScript(t)
	short := options(w)
	short.Expiration = time.Minute
	elsewhere := options(w)
	elsewhere.Context = "none"
	for name, c := range map[string]struct {
		do   func() error
		hint string
	}{
		"made before":      {func() error { _, err := f.Create(ctx, "mine", options(w), p); return err }, "csr cancel mine"},
		"odd name":         {func() error { _, err := f.Create(ctx, "Mine!", options(w), p); return err }, ""},
		"too short":        {func() error { _, err := f.Create(ctx, "other", short, p); return err }, "leave it out"},
		"no context":       {func() error { _, err := f.Create(ctx, "other", elsewhere, p); return err }, ""},
		"nothing to file":  {func() error { _, err := f.Resume(ctx, "", "other"); return err }, "csr list --mine"},
		"somebody else's":  {func() error { return f.Cancel(ctx, "", "joes") }, "csr deny joes"},
		"nobody's":         {func() error { return f.Cancel(ctx, "", "none") }, ""},
		"nothing to await": {func() error { _, err := f.Wait(ctx, "", "none", func(string) {}); return err }, ""},
	} {
		if err := c.do(); err == nil || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
	w.Server.Deny("mine", "not you")
	var lines []string
	if _, err := f.Wait(ctx, "", "mine", func(s string) { lines = append(lines, s) }); err == nil ||
		!strings.Contains(strings.Join(lines, "\n"), "not you") {
		t.Errorf("denied: %v, %q", err, lines)
	}
	w.Server.Delete(flowtest.Requests, "mine")
	if all, err := f.List(ctx, ""); err != nil || len(all) != 1 || all[0].State != StateGone {
		t.Errorf("deleted: %+v, %v", all, err)
	}
	w.Server.File("mine", "joe", "joe", nil, nil)
	if all, err := f.List(ctx, ""); err != nil || len(all[0].Warnings) != 1 {
		t.Errorf("replaced: %+v, %v", all, err)
	}
	if err := f.Cancel(ctx, "", "mine"); err != nil || requests(w) != "joes mine" {
		t.Errorf("replaced, taken back: %v, %s", err, requests(w))
	}
}

// asked is a world whose person is admin, with a request of jane's and one by her ticket.
func asked(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "admin")
	w.Server.File("jane-1", "jane", "jane", []string{"dev"}, nil)
	w.Server.File("jane-2", bootstraptoken.UserPrefix+"abcdef", "jane", nil,
		func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Groups = ticket.Terms{User: "jane"}.TokenGroups()
		})
	w.Server.Put(flowtest.Secrets, flowtest.Object{"metadata": flowtest.Object{"name": "bootstrap-token-abcdef",
		"namespace": "kube-system"}})
	return w
}

func state(w *flowtest.World, name string) csr.State {
	var r certificatesv1.CertificateSigningRequest
	w.Server.Get(flowtest.Requests, name, &r)
	return csr.StateOf(&r).State
}

// TestDecide: a decision is about the request that was shown, or is not made.
func TestDecide(t *testing.T) {
	var seen View
	shown := func(name string, o LookOptions) func(t testing.TB) *flowtest.World {
		return func(t testing.TB) *flowtest.World {
			w := asked(t)
			var err error
			if seen, err = NewRequests(w.Env).Look(t.Context(), "", name, o); err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
	is := func(name string, want csr.State) func(testing.TB, *flowtest.World) {
		return func(t testing.TB, w *flowtest.World) {
			if s := state(w, name); s != want {
				t.Errorf("the request is %s", s)
			}
		}
	}
	for _, c := range []flowtest.UseCase{
		{Name: "look", World: asked, Passes: []string{"forbidden: list", "forbidden: create subjectaccessreviews",
			"forbidden: get requestreviews"}, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			v, err := NewRequests(w.Env).Look(ctx, "", "jane-2", LookOptions{ToDecide: true})
			if err == nil && (v.User != "jane" || v.Ticket == nil) {
				err = fmt.Errorf("%+v", v)
			}
			return err
		}},
		{Name: "approve", World: shown("jane-1", LookOptions{}), Done: is("jane-1", csr.Approved), Leaves: []string{"cut: update"},
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				_, err := NewRequests(w.Env).Decide(ctx, "", seen, DecideOptions{Approve: true, User: seen.User})
				return err
			}},
		{Name: "deny", World: shown("jane-2", LookOptions{}), Done: is("jane-2", csr.Denied), Leaves: append(flowtest.Failing("delete secrets"), "cut: update", "ctrl-c: delete"),
			Passes: append(flowtest.Failing("delete secrets"), "ctrl-c: delete secrets"),
			Skips:  []string{"ctrl-c: delete secrets"},
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				d, err := NewRequests(w.Env).Deny(ctx, "", seen, DecideOptions{Decision: csr.Decision{Message: "no"}}, false)
				if denied := state(w, "jane-2") == csr.Denied; err == nil && (!denied || d.TicketEnded == (len(d.Notes) > 0)) {
					err = fmt.Errorf("%+v, denied %v", d, denied)
				}
				return err
			}},
		{Name: "end a ticket", World: asked, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			return NewRequests(w.Env).EndTicket(ctx, "", "abcdef")
		}},
		{Name: "list", World: asked, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			all, err := NewRequests(w.Env).List(ctx, "", Filter{Pending: true})
			n := 0
			for _, lerr := range all {
				err = errors.Join(err, lerr)
				n++
			}
			if err == nil && n != 2 {
				err = fmt.Errorf("%d requests", n)
			}
			return err
		}},
	} {
		c.Try(t)
	}
}

// TestDenyKeepsTheLine: the token of a line, with which everybody joins, outlasts the denial of a
// request that was filed with it.
func TestDenyKeepsTheLine(t *testing.T) {
	w := asked(t)
	w.Server.File("mallory", bootstraptoken.UserPrefix+"abcdef", "mallory", nil,
		func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Groups = []string{ticket.Group} })
	q := NewRequests(w.Env)
	seen, err := q.Look(t.Context(), "", "mallory", LookOptions{ToDecide: true})
	must.OK(t, err)
	d, err := q.Deny(t.Context(), "", seen, DecideOptions{}, false)
	if err != nil || state(w, "mallory") != csr.Denied || d.TicketEnded ||
		!strings.Contains(strings.Join(d.Notes, ""), "`kubehsm bootstrap-token delete abcdef`") {
		t.Errorf("%+v, %v", d, err)
	}
	if left := w.Server.Names(flowtest.Secrets); len(left) != 1 {
		t.Errorf("the token is deleted: %q", left)
	}
}

// TestDecideRefusals: requests that must not be approved are refused, and the error says why.
func TestDecideRefusals(t *testing.T) {
	w := asked(t)
	q, ctx := NewRequests(w.Env), t.Context()
	seen, err := q.Look(ctx, "", "jane-1", LookOptions{})
	must.OK(t, err)
	own := seen
	own.User = "admin"
	glass := own
	glass.Groups = []string{BreakGlassGroup}
	refused, risky := seen, seen
	named := func(user string) View { v := seen; v.User = user; return v }
	refused.Refuse("", nil, "it is odd")
	risky.Refuse(RiskRevoked, nil, "it was revoked")
	w.Server.Put(flowtest.Requests, changed(w, "jane-1"))
	before := w.State()
	for name, c := range map[string]struct {
		v    View
		o    DecideOptions
		hint string
	}{
		"own": {own, DecideOptions{}, "--own"}, "own, for emergencies": {glass, DecideOptions{}, "a second person"}, "refused": {refused, DecideOptions{}, "csr deny jane-1"},
		"risky": {risky, DecideOptions{}, "--accept-risk=revoked"}, "other words": {seen, DecideOptions{Words: "abandon ability"}, "deny it"}, "changed since": {seen, DecideOptions{User: "jane"}, ""},
		"warned":         {seen, DecideOptions{}, "--words and the eight words that are read to you, or with --accept-risk user:jane"},
		"another's name": {seen, DecideOptions{User: "joe"}, "--accept-risk user:jane"},
		"two names":      {named("Doe, jane"), DecideOptions{}, "eight words that are read to you"},
		"an odd name":    {named("jane\u202e"), DecideOptions{User: "jane\u202e"}, "eight words that are read to you"},
	} {
		c.o.Approve = true
		if _, err := q.Decide(ctx, "", c.v, c.o); err == nil || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
	if _, err := q.Look(ctx, "", "none", LookOptions{}); !errors.Is(err, csr.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
}

func changed(w *flowtest.World, name string) *certificatesv1.CertificateSigningRequest {
	var r certificatesv1.CertificateSigningRequest
	w.Server.Get(flowtest.Requests, name, &r)
	r.Labels = map[string]string{"changed": "yes"}
	return &r
}

// revokeKey puts the key of the request "mine" on the cluster's list.
func revokeKey(w *flowtest.World) {
	var r certificatesv1.CertificateSigningRequest
	w.Server.Get(flowtest.Requests, "mine", &r)
	s := revocation.Shard{Name: revocation.PolicyPrefix + "1", Entries: []revocation.Entry{{
		Certificate: strings.Repeat("ab", 32), Key: ViewOf(&r).Fingerprint, User: "jane", By: "hannah", Reason: "lost in a train"}}}
	w.Server.Put(policies, s.Policy())
}

const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

// TestRevokedInCluster: what is on the cluster's list is refused unless the risk is accepted, also
// to the help desk, which may not list policies. An approver is told what of the list could not be read.
func TestRevokedInCluster(t *testing.T) {
	w := filed(t)
	revokeKey(w)
	q := NewRequests(w.Env)
	for _, forbidden := range [][]string{nil, {"list validatingadmissionpolicies"}} {
		w.Server.Forbid(forbidden...)
		v, err := q.Look(t.Context(), "", "mine", LookOptions{})
		if err != nil || !slices.Contains(v.Risks, RiskRevoked) || len(v.Refusals) != 1 ||
			!strings.Contains(v.Refusals[0], `was revoked in the cluster by hannah: lost in a train`) {
			t.Errorf("%v, %q, %v", v.Risks, v.Refusals, err)
		}
		if _, err := q.Decide(t.Context(), "", v, DecideOptions{Approve: true}); err == nil {
			t.Error("it is approved")
		}
		if v, err = q.Look(t.Context(), "", "mine", LookOptions{Accept: []string{RiskRevoked}}); err != nil ||
			len(v.Refusals) > 0 || len(v.RightsUnknown) > 0 {
			t.Errorf("accepted: %q, %v", v.Refusals, err)
		}
	}
	w.Server.Forbid()
	w.Server.Put(policies, flowtest.Object{"metadata": flowtest.Object{"name": revocation.PolicyPrefix + "2"}})
	v, err := q.Look(t.Context(), "", "mine", LookOptions{})
	if err != nil || len(v.Refusals) != 1 || !strings.Contains(strings.Join(v.RightsUnknown, ""),
		"whether it is revoked: policy kubehsm-revoked-2") {
		t.Errorf("a policy without a list: %q, %q, %v", v.Refusals, v.RightsUnknown, err)
	}
	w.Server.Forbid("list validatingadmissionpolicies", "get validatingadmissionpolicies")
	v, err = q.Look(t.Context(), "", "mine", LookOptions{})
	if err != nil || len(v.Refusals) > 0 || !strings.Contains(strings.Join(v.RightsUnknown, ""), "which certificates are revoked") {
		t.Errorf("%q, %q, %v", v.Refusals, v.RightsUnknown, err)
	}
}

// TestApproveFiled: another credential approves the request that was filed from here, and no
// other one.
func TestApproveFiled(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*flowtest.World)
		uid    string
		words  string
	}{
		"approved": {}, "another request": {uid: "other", words: "is not the one that was filed"},
		"revoked": {before: revokeKey, words: "was revoked in the cluster by hannah"},
		"unread list": {before: func(w *flowtest.World) {
			w.Server.Put(policies, flowtest.Object{"metadata": flowtest.Object{"name": revocation.PolicyPrefix + "1"}})
		}, words: "nobody could tell whether it is revoked"},
		"forbidden list": {before: func(w *flowtest.World) {
			w.Server.Forbid("list validatingadmissionpolicies", "get validatingadmissionpolicies")
		}, words: "nobody could tell which certificates are revoked"},
		"decided": {before: func(w *flowtest.World) { w.Server.Deny("mine", "") }},
		"gone":    {before: func(w *flowtest.World) { w.Server.Gone() }, words: "cannot reach"},
		"no file": {before: func(w *flowtest.World) {
			must.OK(t, os.Remove(w.Env.Kubeconfig))
		}, words: "approve: "},
	} {
		w := filed(t)
		var r certificatesv1.CertificateSigningRequest
		w.Server.Get(flowtest.Requests, "mine", &r)
		ref := csr.RefOf(&r)
		if c.uid != "" {
			ref.UID = "other"
		}
		if c.before != nil {
			c.before(w)
		}
		err := NewRequests(w.Env).ApproveFiled(t.Context(), w.Env.Kubeconfig, ref, r.Spec.Request)
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) ||
			(state(w, "mine") == csr.Approved) != (name == "approved") {
			t.Errorf("%s: %v, it is %s", name, err, state(w, "mine"))
		}
	}
	w := asked(t)
	if err := NewRequests(w.Env).CheckApprover(t.Context(), w.Env.Kubeconfig, csr.ClientSigner); err != nil {
		t.Error(err)
	}
	w.Server.Forbid("approve signers")
	if err := NewRequests(w.Env).CheckApprover(t.Context(), w.Env.Kubeconfig, csr.ClientSigner); !errors.As(err,
		new(*csr.ForbiddenError)) {
		t.Errorf("who may not: %v", err)
	}
}

// TestWatch: the watch tells which requests come and go until ctrl-c, even after an answer
// that breaks off.
func TestWatch(t *testing.T) {
	w := asked(t)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	events, err := NewRequests(w.Env).Watch(ctx, "", Filter{Pending: true})
	must.OK(t, err)
	var told []string
	for ev, err := range events {
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			break
		}
		told = append(told, ev.Type+" "+ev.Request.Name)
		switch len(told) {
		case 2:
			w.Server.Deny("jane-1", "")
		case 3:
			w.Server.Delete(flowtest.Requests, "jane-2")
		case 4:
			stop()
		}
	}
	if got := strings.Join(told, ", "); got != "ADDED jane-1, ADDED jane-2, MODIFIED jane-1, DELETED jane-2" {
		t.Error(got)
	}
}

// TestAnswer: an approver who is warned types the key's words or the user's name, and a name that shows as
// what it is not is no answer.
func TestAnswer(t *testing.T) {
	words := []string{"trap", "wrist", "flight", "document", "chat", "deputy", "agree", "addict"}
	spoken := strings.Join(words, " ")
	const none = "the eight words as they are read to you"
	for name, c := range map[string]struct {
		v     View
		typed string
		want  DecideOptions
		takes string
	}{
		"words": {View{User: "jane"}, spoken, DecideOptions{Words: spoken},
			none + ", or the user's name, jane"},
		"loud words": {View{User: "jane"}, "  TRAP, wris  Flight docu chat-depu agreed addi ",
			DecideOptions{Words: "TRAP, wris  Flight docu chat-depu agreed addi"}, ""},
		"seven words":  {View{User: "jane"}, strings.Join(words[1:], " "), DecideOptions{}, ""},
		"a yes":        {View{User: "jane"}, "y", DecideOptions{}, ""},
		"nothing":      {View{User: "jane"}, " ", DecideOptions{}, ""},
		"the name":     {View{User: "jane"}, " jane ", DecideOptions{User: "jane"}, ""},
		"another case": {View{User: "jane"}, "Jane", DecideOptions{}, ""},
		"a full name": {View{User: "田中 太郎"}, "田中 太郎", DecideOptions{User: "田中 太郎"},
			none + ", or the user's name, 田中 太郎"},
		"under a ticket":   {View{User: "jane", onlyWords: true}, "jane", DecideOptions{}, none},
		"turned round":     {View{User: "jane\u202e"}, "jane\u202e", DecideOptions{}, none},
		"right to left":    {View{User: "ישראל"}, "ישראל", DecideOptions{}, none},
		"an escape":        {View{User: "\x1b[2Jjane"}, "\x1b[2Jjane", DecideOptions{}, none},
		"a letter unseen":  {View{User: "jane\u3164"}, "jane\u3164", DecideOptions{}, none},
		"no UTF-8":         {View{User: "jane\xff"}, "jane\xff", DecideOptions{}, none},
		"a wide space":     {View{User: "jane\u00a0doe"}, "jane\u00a0doe", DecideOptions{}, none},
		"two spaces":       {View{User: "jane  doe"}, "jane  doe", DecideOptions{}, none},
		"a space before":   {View{User: " jane"}, "jane", DecideOptions{}, none},
		"as long as a row": {View{User: strings.Repeat("j", 65)}, strings.Repeat("j", 65), DecideOptions{}, none},
		"no name":          {View{}, "", DecideOptions{}, none},
		"words in any":     {View{User: "jane\u202e"}, spoken, DecideOptions{Words: spoken}, none},
	} {
		c.v.Words = words
		var got DecideOptions
		if ok := got.Answer(c.v, c.typed); !reflect.DeepEqual(got, c.want) || ok != (got.Words != "" || got.User != "") {
			t.Errorf("%s: %v, %+v", name, ok, got)
		}
		if takes := AnswersTo(c.v); c.takes != "" && takes != c.takes {
			t.Errorf("%s: takes %q", name, takes)
		}
	}
	keyless := View{User: "jane"}
	if (&DecideOptions{}).Answer(keyless, "") {
		t.Error("a key without words is approved by saying nothing")
	}
}
