package enroll

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// testEnv is [flowtest.Env].
func testEnv(t *testing.T, labels ...string) (*env.Env, *hsmtest.Fake) {
	t.Helper()
	e, fake := flowtest.Env(t, labels...)
	return e, fake
}
