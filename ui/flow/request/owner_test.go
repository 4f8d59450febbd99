package request

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestOwnerOf: the roster says whose a token is. A token that is nobody's there is refused with a hint. Without a
// roster, or the right to read it, nothing is known.
func TestOwnerOf(t *testing.T) {
	const tokens = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/hardwaretokens"
	w := asked(t)
	config, err := w.Env.Rules().RESTConfig(t.Context(), "")
	must.OK(t, err)
	for serial, spec := range map[string]flowtest.Object{
		"1": {"owner": "jane", "groups": []any{"dev"}}, "2": {"state": "Stock"},
	} {
		w.Server.Put(tokens, flowtest.Object{"apiVersion": "kubehsm.github.io/v1alpha1", "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": serial, "namespace": clusterapi.Namespace}, "spec": spec})
	}
	if s, err := OwnerOf(t.Context(), config, "1"); err != nil || s == nil || s.User != "jane" ||
		!slices.Equal(s.Groups, []string{"dev"}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, serial := range []string{"2", "3"} {
		if s, err := OwnerOf(t.Context(), config, serial); !errors.Is(err, ErrNotListed) || s != nil ||
			!strings.Contains(hint.Of(err), "help desk") {
			t.Errorf("%s: %+v, %v, hint %q", serial, s, err, hint.Of(err))
		}
	}
	if s, err := OwnerOf(t.Context(), config, "../2"); err != nil || s != nil {
		t.Errorf("a serial number that no roster has: %+v, %v", s, err)
	}
	w.Server.Forbid("get hardwaretokens")
	if s, err := OwnerOf(t.Context(), config, "1"); err != nil || s != nil {
		t.Errorf("a roster that cannot be read: %+v, %v", s, err)
	}
}
