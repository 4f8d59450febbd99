package enroll

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// testEnv is [flowtest.Env].
func testEnv(t *testing.T, labels ...string) (*flow.Env, *hsmtest.Fake) {
	t.Helper()
	e, fake := flowtest.Env(t, labels...)
	return &flow.Env{Env: *e}, fake
}
