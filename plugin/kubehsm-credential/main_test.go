//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestEnrollment: what kubeconfig entries say is taken, and all else is left to kubehsm.
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
		name, ok := enrollment(strings.Fields("credential " + in))
		if (want == "left") == ok || ok && name != want {
			t.Errorf("%q: %q, %v", in, name, ok)
		}
	}
	if name, ok := enrollment([]string{"--enrollment", "prod"}); ok {
		t.Errorf("another command: %q", name)
	}
}
