package enroll

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestTermsOfALaterRun: until a request is made, the lifetime and the reason are
// those of the run that makes it.
func TestTermsOfALaterRun(t *testing.T) {
	ctx := context.Background()
	e, _ := flowtest.Env(t, "blue")
	first := begin(t, e, enrolling.Options{User: "jane", Expiration: time.Hour, Reason: "new laptop"}, &typist{})
	if _, err := (keyMaker{first}).make(ctx); err != nil {
		t.Fatal(err)
	}
	if err := enrolling.NewStore(e).Save(first.record); err != nil {
		t.Fatal(err)
	}
	again := begin(t, e, enrolling.Options{Name: first.record.Options.Name, Expiration: 2 * time.Hour}, &typist{})
	if _, err := (keyMaker{again}).make(ctx); err != nil {
		t.Fatal(err)
	}
	if err := again.signRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if s := again.record.Request.Spec; s.Expiration != 2*time.Hour || s.Reason != "new laptop" {
		t.Errorf("asks for %v, because of %q", s.Expiration, s.Reason)
	}
}

// TestRestartKeepsTheRecordUntilItBegins: a restart that gets nowhere loses
// nothing.
func TestRestartKeepsTheRecordUntilItBegins(t *testing.T) {
	ctx := context.Background()
	e, fake := flowtest.Env(t, "blue")
	first := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	if _, err := (keyMaker{first}).make(ctx); err != nil {
		t.Fatal(err)
	}
	if err := enrolling.NewStore(e).Save(first.record); err != nil {
		t.Fatal(err)
	}
	listing, err := fake.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := enrolling.Options{Name: first.record.Options.Name, Context: first.record.Options.Context, User: "jane",
		Restart: true,
		Token:   hsm.URI{Scheme: hsm.SchemePKCS11, Token: "gone", Serial: listing.Tokens[0].Serial + "x"}}
	if _, err := NewEnroller(e).Enroll(ctx, o, &typist{}, nil); !errors.Is(err, hsm.ErrNoToken) {
		t.Fatalf("got %v", err)
	}
	kept, err := enrolling.NewStore(e).Load(first.record.Options.Name)
	if err != nil || kept.Request.KeyHash != first.record.Request.KeyHash {
		t.Errorf("the record lost its key: %+v, %v", kept, err)
	}
}
