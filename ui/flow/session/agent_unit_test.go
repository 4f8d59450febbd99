package session

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// TestAgentUnitOfAnOddPath: what no service file can hold is refused with what to do.
func TestAgentUnitOfAnOddPath(t *testing.T) {
	for _, launchd := range []bool{false, true} {
		a := Agent{&env.Env{Executable: "/opt/a\nb/kubehsm"}}
		if file, _, err := a.AgentUnit(launchd); err == nil || hint.Of(err) == "" {
			t.Errorf("launchd %v: %v\n%s", launchd, err, file)
		}
		a.Env.Executable = "/opt/kubehsm"
		if _, _, err := a.AgentUnit(launchd); err != nil {
			t.Error(err)
		}
	}
}
