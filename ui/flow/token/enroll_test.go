package token

import (
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// enroll makes an enrollment with the key in a slot, and the record by which it goes on.
func enroll(t testing.TB, e *env.Env, made hsm.Slot, name string) {
	t.Helper()
	hash, err := hsm.Fingerprint(made.Key.Public)
	must.OK(t, err)
	at := cluster.Cluster{Server: "https://10.0.0.1:6443"}
	j := &enrolling.Progress{Cluster: at, Request: enrolling.Request{Key: made.URI, KeyHash: hash}}
	j.Options.Name, j.Options.User, j.Options.Token, j.Options.Generate.Slot = name, "jane", made.URI.TokenOnly(), made.URI.Slot
	if err := errors.Join(e.Dirs.Prepare(), home.MakeDir(e.ProgressDir()), enrolling.NewStore(e).Save(j),
		e.Enrollments().Save(enrollment.Enrollment{Name: name, Cluster: at, Key: made.URI, KeyHash: hash, User: "jane",
			Created: time.Now().UTC()}),
	); err != nil {
		t.Fatal(err)
	}
}
