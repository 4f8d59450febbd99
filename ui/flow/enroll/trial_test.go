package enroll

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// scene is a world with an empty card and an agent, whose cluster approves and signs
// whatever is filed.
func scene(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Server.Signs(true)
	flowtest.Agent(t, w.Env)
	return w
}

// TestEnroll: whatever an enrollment fails at, the same once more gets it done, with one
// key, one request and one entry; and nothing that failed is taken for done.
func TestEnroll(t *testing.T) {
	flowtest.UseCase{Name: "enroll", World: scene, Answers: []hsmtest.Answer{hsmtest.PIN("123456")}, Resumes: true,
		Leaves: []string{""}, // its record, by which it goes on
		Passes: append(flowtest.Failing("get configmaps"), "=forbidden: create selfsubjectreviews", "=500: create selfsubjectreviews", // an answer is what is wanted
			"500: get certificatesigningrequests", "cut: get certificatesigningrequests", // the wait goes on
			"forbidden: get /version", "500: get /version", "=cut: get /version"),
		Skips: []string{"gone: get certificatesigningrequests", "gone: get configmaps", "cut: get /version (2)"}, // it waits on, or the agent says the same again for a while
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			o := enrolling.Options{Name: "prod-hsm", User: "jane", Timeout: 2 * time.Second, AcceptForecast: true}
			r, err := NewEnroller(w.Env).Enroll(ctx, o, p, nil)
			text, rerr := os.ReadFile(w.Env.Kubeconfig)
			if rerr != nil {
				t.Error(rerr)
			}
			in := strings.Contains(string(text), "current-context: prod-hsm")
			if err == nil && (r.User != "jane" || !in) || err != nil && in {
				err = errors.Join(err, errors.New("the kubeconfig was changed too early, or not at all"))
			}
			return err
		}}.Try(t)
}
