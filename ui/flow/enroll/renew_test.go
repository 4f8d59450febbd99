package enroll

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRenewTooLate: what is offered in place of a renewal is what the enrollment
// came from. The successor keeps what is known of the context.
func TestRenewTooLate(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	r := begin(t, e, enrolling.Options{Name: "prod-hsm", User: "jane"}, &typist{})
	makeKey(t, r)
	cert, err := csr.ParseCertificate(certificateFor(t, e, r.record.Request.Key, "jane", time.Now().Add(-2*time.Hour),
		time.Now().Add(-time.Hour)))
	must.OK(t, err)
	for context, offered := range map[string]string{"": "kubehsm join --name prod-hsm --ticket -",
		"it's": `kubehsm certificate renew prod-hsm --with 'it'\''s'`} {
		r.record.Options.Context, r.record.Namespace = context, "team"
		must.OK(t, r.save(t.Context(), cert))
		en, err := e.Enrollments().Load("prod-hsm")
		must.OK(t, err)
		if err := NewRenewer(e).renewable(en); err == nil || !strings.Contains(hinting.Of(err), offered) {
			t.Errorf("from context %q: %v, hint %q", context, err, hinting.Of(err))
		}
		x, begun, err := NewRenewer(e).Of("prod-hsm", time.Now())
		if err != nil || begun || !x.NotAfter.Equal(cert.Leaf.NotAfter) {
			t.Errorf("it ends %v, begun %v, %v", x.NotAfter, begun, err)
		}
		j, err := NewRenewer(e).renewal(ctx, "prod-hsm", RenewOptions{})
		if err != nil || j.Namespace != "team" {
			t.Errorf("the renewal: %+v, %v", j, err)
		}
	}
	j, err := NewRenewer(e).renewal(ctx, "prod-hsm", RenewOptions{NewKey: true})
	if err == nil {
		err = enrolling.NewStore(e).Save(j)
	}
	must.OK(t, err)
	_, err = NewRenewer(e).renewal(ctx, "prod-hsm", RenewOptions{})
	if hint := hinting.Of(err); !strings.Contains(hint, "kubehsm certificate renew prod-hsm --new-key") ||
		strings.Contains(hint, "--restart") {
		t.Errorf("another renewal is unfinished: %v, hint %q", err, hint)
	}
}

// TestDamagedRenewals: a record of renewals that is damaged is replaced; one of a later version stays.
func TestDamagedRenewals(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	path := filepath.Join(e.Dirs.State, "renewals", "prod-hsm.json")
	n := renewals{e}
	j := &enrolling.Progress{Options: enrolling.Options{Name: "prod-hsm"}, Request: enrolling.Request{KeyHash: "x"}}
	change := func() error { return n.change(j, func(known *enrollment.Renewal) { known.Approver = "it" }) }
	must.OK(t, errors.Join(e.Dirs.Prepare(), change()))
	for text, kept := range map[string]bool{`{`: false, `{"version": `: false, `[]`: false, ``: false, `{"version": 9}`: true} {
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		if err := change(); errors.Is(err, record.ErrNewer) != kept || !kept && err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestUnwritableState: what cannot be kept is told with the folder that is meant.
func TestUnwritableState(t *testing.T) {
	e, _ := flowtest.Env(t)
	must.OK(t, e.Dirs.Prepare())
	for _, cause := range []error{syscall.EROFS, syscall.EACCES} {
		if hint := hinting.Of(e.Unwritable(&fs.PathError{Op: "open", Path: "x", Err: cause})); !strings.Contains(hint,
			e.Dirs.State) || !strings.Contains(hint, "KUBEHSM_HOME") {
			t.Errorf("%v: hint %q", cause, hint)
		}
	}
	if err := e.Unwritable(fs.ErrNotExist); hinting.Of(err) != "" {
		t.Errorf("of another error: %q", hinting.Of(err))
	}
}

// TestFullDisk: a step that finds the disk full says how it is gone on with.
func TestFullDisk(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	r := begin(t, e, enrolling.Options{Name: "prod-hsm", User: "jane"}, &typist{})
	err := resumable(r.record, errors.Join(errors.New("write"), syscall.ENOSPC))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(hinting.Of(err), "kubehsm enroll --name prod-hsm") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
	r.record.Options.Renewal = &enrolling.Renewal{With: "it's", OldKey: r.record.Options.Token}
	if hint := hinting.Of(waitHint(r.record, context.Canceled)); !strings.Contains(hint,
		`kubehsm certificate renew prod-hsm --new-key --with 'it'\''s'`) {
		t.Errorf("of a renewal: %q", hint)
	}
}

// TestHintsOfRenewal: an enrollment that was joined is renewed with its certificate,
// so its hints name no ticket and no bootstrap token.
func TestHintsOfRenewal(t *testing.T) {
	r := &attempt{record: &enrolling.Progress{Options: enrolling.Options{Name: "prod-hsm",
		Join: &enrolling.Join{Ticket: "abcdef"}, Renewal: &enrolling.Renewal{}}}}
	for what, err := range map[string]error{
		"denied":       endHint(r.record, hinting.With(errors.New("denied"), "file another")),
		"unauthorized": r.record.ExpiredToken(hinting.With(apierror.ErrUnauthorized, "it has ended")),
	} {
		if hint := hinting.Of(err); hint == "" || strings.Contains(hint, "ticket") ||
			strings.Contains(hint, "bootstrap token") {
			t.Errorf("%s: %q", what, hint)
		}
	}
}

// TestForget: an enrollment that was begun is gone; one whose renewal was begun is as it was, with
// its options, and its cluster is known.
func TestForget(t *testing.T) {
	ctx := t.Context()
	e, _ := flowtest.Env(t, "blue")
	r := begin(t, e, enrolling.Options{Name: "prod-hsm", User: "jane", SignerName: "example.com/people"}, &typist{})
	makeKey(t, r)
	store := enrolling.NewStore(e)
	must.OK(t, errors.Join(store.Save(r.record), NewEnroller(e).Forget(ctx, "prod-hsm")))
	if _, err := store.Load("prod-hsm"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	cert, err := csr.ParseCertificate(certificateFor(t, e, r.record.Request.Key, "jane", time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour)))
	if err == nil {
		err = r.save(ctx, cert)
	}
	must.OK(t, err)
	r.record.Options.Join = &enrolling.Join{Ticket: "abcdef"}
	r.record.Options.Renewal, r.record.Generating = &enrolling.Renewal{OldKey: r.record.Request.Key}, true
	r.record.Request = enrolling.Request{Name: "other"}
	if next := r.record.Next(); next != enrolling.StepToken {
		t.Errorf("a renewal begins with %q", next)
	}
	must.OK(t, errors.Join(store.Save(r.record), NewEnroller(e).Forget(ctx, "prod-hsm")))
	j, err := store.Load("prod-hsm")
	if err != nil || !j.Finished() || j.Options.Renewal != nil || j.Request.Name != "" || j.Request.KeyHash == "" ||
		j.Options.SignerName != "example.com/people" || j.Options.Join == nil {
		t.Errorf("after a renewal: %+v, %v", j, err)
	}
	if err := NewEnroller(e).Forget(ctx, "prod-hsm"); err == nil || !strings.Contains(hinting.Of(err), "unenroll") {
		t.Errorf("a finished one: %v", err)
	}
}
