package deeds

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// testLog is an empty record.
func testLog(t *testing.T) Log {
	t.Helper()
	root := t.TempDir()
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: root}[k] })
	if err != nil {
		t.Fatal(err)
	}
	return NewLog(&env.Env{Dirs: dirs})
}

func TestDeeds(t *testing.T) {
	log := testLog(t)
	if all, err := log.All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for _, user := range []string{"jane", "joe"} {
		if err := log.Add(t.Context(), Deed{Action: "ticket", User: user, Terms: &ticket.Terms{User: user}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := log.All()
	if err != nil || len(all) != 2 || all[1].User != "joe" || all[1].Terms.User != "joe" || all[0].Time.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestHugeDeed: what others wrote does not keep the record from being read.
func TestHugeDeed(t *testing.T) {
	log := testLog(t)
	if err := log.Add(t.Context(), Deed{Action: "revoke", User: "jane",
		Note: strings.Repeat("\x1b[31mé", 100<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := log.Add(t.Context(), Deed{Action: "revoke", User: strings.Repeat("x", MaxDeed)}); err == nil {
		t.Error("a line was written that cannot be read")
	}
	if past, err := log.All(); err != nil || len(past) != 1 {
		t.Errorf("%d, %v", len(past), err)
	}
}

// TestDeedThatCannotBeKept: a deed is on record wholly or not at all; the error says why not.
func TestDeedThatCannotBeKept(t *testing.T) {
	log := testLog(t)
	if err := log.Add(t.Context(), Deed{Action: "ticket", Ticket: "abcdef"}); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(log.path() + ".lock")
	if err := lock.Lock(); err != nil { // another kubehsm does the same
		t.Fatal(err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if err := log.Add(cancelled, Deed{Action: "revoke"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ctrl-c while another one writes: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(log.path(), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := log.Add(t.Context(), Deed{Action: "revoke"}); err == nil {
		t.Error("a record that others may write is written to")
	}
	if err := os.Chmod(log.path(), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := log.All(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := log.Add(t.Context(), Deed{Action: NotMade, Ticket: "abcdef"}); err != nil {
		t.Fatal(err)
	}
	if all, err := log.All(); err != nil || len(all) != 0 {
		t.Errorf("with a ticket that was not made: %+v, %v", all, err)
	}
	if err := errors.Join(os.Remove(log.path()), os.Mkdir(log.path(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := log.All(); err == nil {
		t.Error("a folder was read")
	}
	if err := log.Add(t.Context(), Deed{Action: "revoke"}); err == nil {
		t.Error("a folder was written to")
	}
}
