package enroll

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// begin is an enrollment whose token was found.
func begin(t *testing.T, e *env.Env, o enrolling.Options, p hsm.Prompter) *attempt {
	t.Helper()
	ctx := context.Background()
	must.OK(t, e.Dirs.Prepare())
	must.OK(t, home.MakeDir(e.ProgressDir()))
	o, err := NewEnroller(e).Complete(ctx, o)
	must.OK(t, err)
	j, err := NewEnroller(e).open(ctx, o)
	must.OK(t, err)
	r := newAttempt(e, j, o, p, nil)
	t.Cleanup(r.close)
	if _, err := r.findToken(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func makeKey(t *testing.T, r *attempt) {
	t.Helper()
	if _, err := (keyMaker{r}).make(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// crashed is an enrollment that begins anew after its key was made and before that was recorded.
func crashed(t *testing.T) (first, second *attempt) {
	t.Helper()
	e, _ := flowtest.Env(t, "blue")
	first = begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	makeKey(t, first)
	lost := *first.record
	lost.Request.Key, lost.Request.KeyHash, lost.Generating = hsm.URI{}, "", true
	must.OK(t, enrolling.NewStore(e).Save(&lost))
	return first, begin(t, e, enrolling.Options{Name: lost.Options.Name}, &typist{})
}

func TestMakeKeySurvivesACrash(t *testing.T) {
	first, second := crashed(t)
	out, err := keyMaker{second}.make(t.Context())
	must.OK(t, err)
	if !out.reused || second.record.Request.KeyHash != first.record.Request.KeyHash {
		t.Errorf("made another key: %+v", out)
	}
}

// halfKey is a token on which key generation was cut off: once it is unlocked,
// everybody sees that the private object is missing.
type halfKey struct {
	hsm.Token
	deleted bool
}

func (h *halfKey) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	s, err := h.Token.Slot(ctx, u)
	if h.Unlocked() && !h.deleted {
		s.Key, s.Problem = nil, "the private key is missing"
	}
	return s, err
}

func (h *halfKey) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	h.deleted = true
	return h.Token.Delete(ctx, u, p)
}

func TestMakeKeyReplacesHalfAKey(t *testing.T) {
	ctx := t.Context()
	first, second := crashed(t) // while the token was making the pair
	half := first.record.Request.KeyHash
	tok := &halfKey{Token: second.token}
	second.token = tok
	out, err := keyMaker{second}.make(ctx)
	must.OK(t, err)
	if out.reused || second.record.Request.KeyHash == half || second.record.Request.KeyHash == "" {
		t.Errorf("took half a key: %+v", out)
	}
	slots, err := second.token.Slots(ctx, nil)
	must.OK(t, err)
	if !tok.deleted || len(slots) != 1 {
		t.Errorf("the half was left on the token: %v", slots)
	}
}

func TestMakeKeyRefusesAForeignKey(t *testing.T) {
	ctx := context.Background()
	e, fake := flowtest.Env(t, "blue")
	tok, err := fake.Open(ctx, hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue"})
	must.OK(t, err)
	defer tok.Close()
	there, err := tok.Generate(ctx, hsm.GenerateOptions{Label: "prod-eu-west-hsm"}, &typist{})
	must.OK(t, err)
	r := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	_, err = (keyMaker{r}).make(ctx)
	if !errors.Is(err, hsm.ErrOccupied) || hinting.Of(err) == "" {
		t.Errorf("got %v (hint %q)", err, hinting.Of(err))
	}
	if r.record.Generating {
		t.Error("the foreign key could be taken for ours on the next run")
	}
	second := begin(t, e, enrolling.Options{User: "jane", Key: there.URI}, &typist{}) // as the hint says
	if out, err := (keyMaker{second}).make(ctx); err != nil || !out.reused {
		t.Errorf("with --key: %+v, %v", out, err)
	}
}

func TestMakeKeyNoticesAReplacedKey(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	r := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	makeKey(t, r)
	r.record.Request.KeyHash = "00" + r.record.Request.KeyHash[2:]
	if _, err := (keyMaker{r}).make(ctx); !errors.Is(err, hsm.ErrKeyMismatch) {
		t.Errorf("got %v", err)
	}
}

func TestWrongPINKeepsNothingHalf(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	r := begin(t, e, enrolling.Options{User: "jane"}, hsmtest.NewScript(t, hsmtest.PIN("000000"), hsmtest.Cancel()))
	if _, err := (keyMaker{r}).make(ctx); !errors.Is(err, hsm.ErrCancelled) {
		t.Fatalf("got %v", err)
	}
	slots, err := r.token.Slots(ctx, nil)
	must.OK(t, err)
	if len(slots) != 0 || r.record.Request.KeyHash != "" {
		t.Errorf("left behind: %v, %q", slots, r.record.Request.KeyHash)
	}
}

func TestForecastIsAboutWhatIsLeft(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	o := enrolling.Options{Context: "no such context"}
	if _, err := NewEnroller(e).forecast(context.Background(), &enrolling.Progress{Options: o}); err == nil {
		t.Error("a forecast of a cluster that is not there")
	}
	if got, err := NewEnroller(e).forecast(context.Background(),
		&enrolling.Progress{Options: o, Request: enrolling.Request{UID: "u"}}); err != nil || got != nil {
		t.Errorf("filed long ago: %v, %v", got, err)
	}
}
