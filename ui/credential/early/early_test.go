package early

import (
	"strings"
	"testing"
)

// TestEnrollment: what kubeconfig entries say is taken, all else is left to the
// command.
func TestEnrollment(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"--enrollment prod":       "prod",
		"--enrollment=prod":       "prod",
		"--help":                  "left",
		"--enrollment":            "left",
		"prod":                    "left",
		"--enrollment prod extra": "left",
		"--bad prod":              "left",
		"--enrollment prod --api-version v1beta1":   "prod",
		"--enrollment prod --api-version":           "left",
		"--enrollment prod --bad v1beta1":           "left",
		"--bad prod --api-version v1beta1":          "left",
		"--enrollment prod --api-version v1 --more": "left",
	} {
		name, ok := enrollmentName(strings.Fields(in))
		if (want == "left") == ok || ok && name != want {
			t.Errorf("%q: %q, %v", in, name, ok)
		}
	}
}
