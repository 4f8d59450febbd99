package cli

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// TestEnrollDrop: an unfinished enrollment is dropped after a yes, and a finished one is not.
func TestEnrollDrop(t *testing.T) {
	b := newBench(t)
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(t, err)
	must.OK(t, dirs.Prepare())
	e := &env.Env{Dirs: dirs}
	must.OK(t, home.MakeDir(e.ProgressDir()))
	s := enrolling.NewStore(e)
	token := hsm.URI{Scheme: hsm.SchemePIV, Serial: "7"}
	done := &enrolling.Progress{Options: enrolling.Options{Name: "done", Token: token}}
	for _, step := range done.Options.Steps() {
		done.Mark(step)
	}
	for _, j := range []*enrolling.Progress{done, {Options: enrolling.Options{Name: "begun", Token: token}}} {
		must.OK(t, s.Save(j))
	}
	b.fails(2, "--name", "enroll", "--drop")
	b.fails(1, "was begun here", "enroll", "--drop", "--name", "none")
	b.fails(1, "is finished", "enroll", "--drop", "--name", "done")
	b.ask = prompt.None()
	b.fails(5, "with --yes", "enroll", "--drop", "--name", "begun")
	b.ask = hsmtest.NewScript(t, hsmtest.Yes())
	if out := b.ok("enroll", "--drop", "--name", "begun"); out != "begun: dropped\n" {
		t.Errorf("%q", out)
	}
	if left, err := s.Unfinished(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
