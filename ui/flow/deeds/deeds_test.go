package deeds

import (
	"context"
	"testing"

	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow"
)

func TestDeeds(t *testing.T) {
	e, _ := flow.TestEnv(t)
	ctx := context.Background()
	if all, err := NewLog(&e.Env).All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for _, user := range []string{"jane", "joe"} {
		if err := NewLog(&e.Env).Add(ctx, Deed{Action: "ticket", User: user, Terms: &ticket.Terms{User: user}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := NewLog(&e.Env).All()
	if err != nil || len(all) != 2 || all[1].User != "joe" || all[1].Terms.User != "joe" || all[0].Time.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}
