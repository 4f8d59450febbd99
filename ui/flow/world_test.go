package flow

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// testEnv is [flowtest.Env].
func testEnv(t *testing.T, labels ...string) (*Env, *hsmtest.Fake) {
	t.Helper()
	e, fake := flowtest.Env(t, labels...)
	return &Env{Env: *e}, fake
}
