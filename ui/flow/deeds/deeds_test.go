package deeds

import (
	"strings"
	"testing"

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
	if err := log.Add(t.Context(), Deed{Action: "revoke", User: "jane", Note: strings.Repeat("\x1b[31mé", 100<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := log.Add(t.Context(), Deed{Action: "revoke", User: strings.Repeat("x", MaxDeed)}); err == nil {
		t.Error("a line was written that cannot be read")
	}
	if past, err := log.All(); err != nil || len(past) != 1 {
		t.Errorf("%d, %v", len(past), err)
	}
}
