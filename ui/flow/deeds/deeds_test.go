package deeds

import (
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
