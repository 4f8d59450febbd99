package enroll

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRestartKeepsTheRecordUntilItBegins: a restart that gets nowhere loses
// nothing.
func TestRestartKeepsTheRecordUntilItBegins(t *testing.T) {
	ctx := context.Background()
	e, fake := flowtest.Env(t, "blue")
	first := begin(t, e, enrolling.Options{User: "jane"}, &typist{})
	makeKey(t, first)
	must.OK(t, enrolling.NewStore(e).Save(first.record))
	listing, err := fake.List(ctx)
	must.OK(t, err)
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
