package enrolling

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

const server = "https://10.0.0.1:6443"

var key = hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}

// begun is the record of an enrollment that has its key.
func begun(name string, done ...Step) *Progress {
	j := &Progress{Cluster: cluster.Cluster{Server: server}, Done: done}
	j.Options = Options{Name: name, Token: key.TokenOnly(), Context: "prod", User: "jane"}
	j.Options.FillDefaults()
	j.Request = Request{Name: "jane-1", Server: server, Key: key, KeyHash: "c0ffee"}
	return j
}

func store(t *testing.T) (*env.Env, Store) {
	t.Helper()
	e, _ := flowtest.Env(t)
	must.OK(t, errors.Join(e.Dirs.Prepare(), home.MakeDir(e.ProgressDir())))
	return e, NewStore(e)
}

// TestStore: records are kept whole. A record that cannot be read is an error with a hint,
// and does not count as missing.
func TestStore(t *testing.T) {
	e, s := store(t)
	if all, err := s.All(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, j := range []*Progress{begun("first"), begun("second", StepToken, StepKey), begun("over", Steps()...)} {
		must.OK(t, s.Save(j))
	}
	long := begun("long-over", Steps()...)
	long.Updated = time.Now().Add(-2 * endedKept)
	must.OK(t, home.WriteRecord(s.Path("long-over"), format(), long))
	own := Request{Name: "own", Server: server, KeyHash: "c0ffee", Created: time.Now().UTC().Truncate(time.Second)}
	elsewhere := own
	elsewhere.Server = "https://10.0.0.9:6443"
	must.OK(t, errors.Join(s.SaveRequest(own), s.SaveRequest(elsewhere)))
	if left, err := s.Unfinished(t.Context()); err != nil || len(left) != 2 {
		t.Errorf("unfinished: %+v, %v", left, err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Unfinished(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("ctrl-c: %v", err)
	}
	if all, err := s.Requests(server); err != nil || len(all) != 4 {
		// requests of enrollments count too, unless those were finished long ago
		t.Errorf("requests: %+v, %v", all, err)
	}
	if got, err := s.LoadRequest(server, "own"); err != nil || got.KeyHash != "c0ffee" {
		t.Errorf("%+v, %v", got, err)
	}
	_, none := s.Load("none")
	_, noRequest := s.LoadRequest(server, "none")
	for _, err := range []error{none, noRequest} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what is not there: %v", err)
		}
	}
	_, odd := s.Load("../x")
	_, oddRequest := s.LoadRequest(server, "../x")
	if odd == nil || errors.Is(odd, fs.ErrNotExist) || oddRequest == nil || errors.Is(oddRequest, fs.ErrNotExist) {
		t.Errorf("a name that leads elsewhere: %v, %v", odd, oddRequest)
	}
	for _, path := range []string{s.RequestPath(server, "own"), s.Path("first")} {
		must.OK(t, os.WriteFile(path, []byte("{"), 0o600))
		if _, err := s.Requests(server); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a record, %s: %v", path, err)
		}
		must.OK(t, os.Remove(path))
	}
	must.OK(t, os.WriteFile(s.Path("first"), []byte("{"), 0o600))
	if _, err := s.Unfinished(t.Context()); err == nil || !strings.Contains(hinting.Of(err), "--key") {
		t.Errorf("half a record: %v, hint %q", err, hinting.Of(err))
	}
	must.OK(t, os.WriteFile(s.Path("first"), []byte(`{"version":99}`), 0o600))
	if _, err := s.Load("first"); err == nil || strings.Contains(hinting.Of(err), "remove it") {
		t.Errorf("a newer program's record: %v, hint %q", err, hinting.Of(err))
	}
	must.OK(t, errors.Join(os.RemoveAll(e.ProgressDir()), os.WriteFile(e.ProgressDir(), nil, 0o600)))
	if err := s.Save(begun("lost")); err == nil {
		t.Error("a record was written into a file")
	}
}

// TestContinue: an enrollment goes on with the options that it was begun with. Another value
// for an option that cannot be changed any more is a conflict, which names the option and
// says how to go on.
func TestContinue(t *testing.T) {
	for name, c := range map[string]struct {
		done   []Step
		asked  func(*Options)
		option string
	}{
		"the same":                  {},
		"another user":              {asked: func(o *Options) { o.User = "joe" }, option: "user"},
		"another context":           {asked: func(o *Options) { o.Context = "other" }, option: "context"},
		"another token, once found": {done: []Step{StepToken}, asked: func(o *Options) { o.Token.Serial = "8" }, option: "token"},
		"another key":               {asked: func(o *Options) { o.Key = key; o.Key.Slot = "9c" }, option: "key"},
		"the key":                   {asked: func(o *Options) { o.Key = key }},
		"another touch policy":      {asked: func(o *Options) { o.Generate.Touch = hsm.TouchAlways }, option: "touch policy"},
	} {
		j := begun("prod-hsm", c.done...)
		o := j.Options
		if c.asked != nil {
			c.asked(&o)
		}
		err := j.Continue(o)
		var conflict *ConflictError
		if (err == nil) != (c.option == "") || err != nil && (!errors.As(err, &conflict) || conflict.Option != c.option ||
			!strings.Contains(err.Error(), `"prod-hsm" was begun with`) ||
			!strings.Contains(hinting.Of(err), "`kubehsm enroll --name prod-hsm` continues")) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	renewal := begun("prod-hsm", Steps()...)
	renewal.Options.Renewal = &Renewal{With: "admin", OldKey: key}
	if line := renewal.Options.Resume(); line != "kubehsm certificate renew prod-hsm --new-key --with admin" {
		t.Error(line)
	}
	if err := renewal.Options.Conflict("user", "jane", "joe"); strings.Contains(hinting.Of(err), "--restart") {
		t.Errorf("a renewal is not begun anew: %q", hinting.Of(err))
	}
	if err := renewal.Continue(renewal.Options); err != nil || renewal.Options.Renewal != nil {
		t.Errorf("one that is over: %v", err)
	}
}

// TestSteps: steps are done in their order, and can be forgotten from any step on.
func TestSteps(t *testing.T) {
	j := begun("prod-hsm")
	if j.Filed() || j.Finished() {
		t.Error("at the beginning")
	}
	for _, s := range j.Options.Steps() {
		j.Mark(s)
		j.Mark(s)
		if !j.Did(s) || s.Title() == "" || s.Title() == string(s) {
			t.Errorf("%s: %q", s, s.Title())
		}
	}
	if !j.Finished() || len(j.Done) != len(Steps()) {
		t.Errorf("%q", j.Done)
	}
	j.Unmark(StepApproval)
	if !slices.Equal(j.Done, []Step{StepToken, StepKey, StepRequest}) {
		t.Errorf("%q", j.Done)
	}
	j.Options.Join = &Join{}
	if steps := j.Options.Steps(); steps[0] != StepDiscover || StepDiscover.Title() == "" ||
		len(steps) != len(JoinSteps()) {
		t.Errorf("%q", steps)
	}
	if Step("odd").Title() != "odd" {
		t.Error("an unknown step")
	}
	j.Options.Expiration, j.Options.Reason = time.Hour, "new laptop"
	if j.Request.Ask("jane-1", []byte("x"), &j.Options); j.Request.Spec.Name != "jane-1" ||
		j.Request.Spec.Expiration != time.Hour || j.Request.Spec.Reason != "new laptop" ||
		j.Request.Spec.SignerName != csr.ClientSigner || j.Request.Context != "prod" {
		t.Errorf("%+v", j.Request)
	}
	j.Request.UID = "u"
	if ref := j.Request.Ref(); !j.Filed() || ref.Name != "jane-1" || ref.UID != "u" {
		t.Errorf("%+v", ref)
	}
	if j.Request.Forget(); j.Filed() || j.Request.KeyHash == "" || j.Request.Name != "" {
		t.Errorf("%+v", j.Request)
	}
	if en := j.Enrollment(); en.Name != "prod-hsm" || en.User != "jane" || en.Key.Slot != "9a" ||
		en.Host() != "10.0.0.1:6443" {
		t.Errorf("%+v", en)
	}
	if p := j.Prospect(nil); p.Subject.User != "jane" || p.SignerName != csr.ClientSigner {
		t.Errorf("%+v", p)
	}
}

// TestUseTicket: a ticket says what to ask for. Options that say otherwise are refused.
func TestUseTicket(t *testing.T) {
	token, err := bootstraptoken.Generate()
	must.OK(t, err)
	given := ticket.Ticket{Token: token, Name: "Jane's", Server: server, Expires: time.Now().Add(time.Hour),
		Terms: ticket.Terms{User: "jane", Groups: []string{"dev"}, Lifetime: time.Hour,
			Policy: ticket.TouchCached | ticket.PINOnce, Serial: "7"}}
	for name, c := range map[string]struct {
		o    Options
		want error
		hint string
	}{
		"nothing else":   {},
		"another user":   {Options{User: "joe"}, ErrTicket, "another ticket"},
		"other groups":   {Options{Groups: []string{"ops"}}, ErrTicket, "another ticket"},
		"another signer": {Options{SignerName: "x"}, ErrTicket, "another ticket"},
		"for longer":     {Options{Expiration: 2 * time.Hour}, ErrTicket, "another ticket"},
		"without proof":  {Options{NoAttestation: true}, ErrTicket, "the ticket asks for"},
		"a weaker key":   {Options{Generate: hsm.GenerateOptions{Touch: hsm.TouchNever}}, ErrTicket, "the ticket asks for"},
		"for less":       {o: Options{Expiration: 20 * time.Minute}},
		"a stricter key": {o: Options{Generate: hsm.GenerateOptions{Touch: hsm.TouchAlways, PIN: hsm.PINAlways}}},
	} {
		o := c.o
		err := o.UseTicket(given)
		if !errors.Is(err, c.want) || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
		if err == nil && (o.User != "jane" || o.Name != "jane-s" ||
			o.Expiration != time.Hour && o.Expiration != c.o.Expiration ||
			o.Generate.Touch < hsm.TouchCached || o.Join.Ticket != token.ID() || o.Join.Endpoint != server ||
			!o.Join.Token.Equal(token) || o.SignerName != csr.ClientSigner) {
			t.Errorf("%s: %+v", name, o)
		}
		if err != nil && o.Join != nil {
			t.Errorf("%s: refused, and yet taken: %+v", name, o.Join)
		}
	}
	given.Expires = time.Now().Add(-time.Hour)
	if err := new(Options).UseTicket(given); !errors.Is(err, ticket.ErrExpired) {
		t.Errorf("one that is over: %v", err)
	}
}

// TestJoin: a join finds the cluster by its options, and refuses a token that the ticket does
// not allow.
func TestJoin(t *testing.T) {
	var none *Join
	full := &Join{Endpoint: "https://api.example:6443", Ticket: "abcdef", Serial: "7", Policy: ticket.PINOnce, File: ""}
	for file, o := range map[string]*Join{"": full, "/tmp/Cluster One.yaml": {File: "/tmp/Cluster One.yaml"},
		discovery.Stdin: {File: discovery.Stdin, Document: []byte("x")}} {
		d := o.Discovery(nil)
		if d.File != file || (d.Endpoint != "") != (file == "") || (d.Stdin != nil) != (file == discovery.Stdin) {
			t.Errorf("%q: %+v", file, d)
		}
	}
	if names := full.JoinName() + " " +
		(&Join{File: "/tmp/Cluster One.yaml"}).JoinName(); names != "api.example-6443-hsm cluster-one-hsm" {
		t.Error(names)
	}
	why := errors.New("this kind of token attests no keys")
	if err := errors.Join(none.RefusePolicy(false, why), none.RefuseSerial(hsm.TokenInfo{}), full.RefusePolicy(true, nil),
		full.RefuseSerial(hsm.TokenInfo{Serial: "7"})); err != nil {
		t.Error(err)
	}
	for _, err := range []error{full.RefusePolicy(false, why), full.RefuseSerial(hsm.TokenInfo{Serial: "8"})} {
		if !errors.Is(err, ErrTicket) || !strings.Contains(hinting.Of(err), "ask the help desk for") {
			t.Errorf("%v, hint %q", err, hinting.Of(err))
		}
	}
	if again := full.With(&Join{File: "f"}); again.Endpoint != full.Endpoint || again.Ticket != "abcdef" ||
		again.File != "f" || full.With(nil) != full {
		t.Errorf("%+v", again)
	}
	j := begun("prod-hsm")
	j.Options.Join = full
	if err := j.TokenNeeded(); !errors.Is(err, ErrTokenNeeded) ||
		!strings.Contains(hinting.Of(err), "kubehsm join --name prod-hsm --ticket -") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
	if err := j.ExpiredToken(apierror.ErrUnauthorized); !errors.Is(err, apierror.ErrUnauthorized) ||
		!strings.Contains(hinting.Of(err), "--certificate FILE") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
	if err := j.ExpiredToken(why); hinting.Of(err) != "" {
		t.Errorf("another error: %q", hinting.Of(err))
	}
	j.Options.Renewal = &Renewal{}
	if line := j.OtherFiler(); !strings.Contains(line, "kubehsm certificate renew prod-hsm --with prod") {
		t.Error(line)
	}
	if line := begun("x").OtherFiler(); line != "" {
		t.Error(line)
	}
}

// TestFill: what is left open comes from the record.
func TestFill(t *testing.T) {
	o := Options{Name: "prod-hsm"}
	o.FillFrom(begun("prod-hsm"))
	if o.User != "jane" || o.Context != "prod" || !SameToken(key.TokenOnly(), o.Token) || !o.Attests() {
		t.Errorf("%+v", o)
	}
	var renewed Options
	renewed.FillRenewed(o)
	renewed.TakeTerms(Options{Reason: "new"})
	renewed.TakeRenewal(Options{Expiration: time.Hour}, false)
	if renewed.Expiration != time.Hour {
		t.Errorf("%+v", renewed)
	}
	if len(Risks(OfEnroll)) == 0 || len(Flags(OfRenewal)) == 0 ||
		Flags(OfRequest)[0].Of(&o).Into == nil {
		t.Errorf("%+v", o)
	}
	if NameFor("Prod/EU west") != "prod-eu-west-hsm" || Slug("--A b--") != "a-b" {
		t.Error(NameFor("Prod/EU west"), Slug("--A b--"))
	}
	o.User, o.Groups = "{serial}", []string{"{context}"}
	if !o.HasPlaceholders() {
		t.Error("there are placeholders")
	}
	if err := o.FillNames(hsm.TokenInfo{Serial: "7"}); err != nil || o.User != "7" || o.Groups[0] != "prod" ||
		o.HasPlaceholders() {
		t.Errorf("%+v, %v", o, err)
	}
	o.Groups = []string{"{odd}"}
	if err := o.FillNames(hsm.TokenInfo{}); err == nil {
		t.Error("a placeholder that nobody knows")
	}
}

// TestNext: a run goes on with the first step that is not done. A renewal leaves no record as
// long as nothing was made.
func TestNext(t *testing.T) {
	j := &Progress{}
	for _, s := range j.Options.Steps() {
		if got := j.Next(); got != s {
			t.Errorf("next is %q, want %q", got, s)
		}
		j.Mark(s)
	}
	if got := j.Next(); got != "" {
		t.Errorf("all is done, next is %q", got)
	}
	for name, c := range map[string]struct {
		j    Progress
		want bool
	}{
		"an enrollment":         {Progress{}, false},
		"a renewal":             {Progress{Options: Options{Renewal: &Renewal{}}}, true},
		"a key is being made":   {Progress{Options: Options{Renewal: &Renewal{}}, Generating: true}, false},
		"a request was signed":  {Progress{Options: Options{Renewal: &Renewal{}}, Request: Request{Name: "jane-1"}}, false},
		"a certificate is here": {Progress{Options: Options{Renewal: &Renewal{}}, Certificate: []byte("pem")}, false},
	} {
		if got := c.j.Repeatable(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	key := hsm.URI{Scheme: hsm.SchemePIV, Serial: "123", Slot: "9c"}
	for _, x := range []*Progress{{Options: Options{Key: key}}, {Request: Request{Key: key, KeyHash: "0102"}}} {
		if x.Makes() {
			t.Errorf("%+v makes another key", x)
		}
	}
	if !j.Makes() {
		t.Error("without a key, none is made")
	}
}
