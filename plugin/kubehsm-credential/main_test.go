//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestRequest: what kubeconfig entries say is taken, and all else is left to kubehsm.
func TestRequest(t *testing.T) {
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
		q, ok := request(strings.Fields("credential " + in))
		if (want == "left") == ok || ok && q.Enrollment != want {
			t.Errorf("%q: %q, %v", in, q.Enrollment, ok)
		}
		if version := strings.HasSuffix(in, " v1beta1"); ok && version != (q.APIVersion == "v1beta1") {
			t.Errorf("%q: version %q", in, q.APIVersion)
		}
	}
	if q, ok := request([]string{"--enrollment", "prod"}); ok {
		t.Errorf("another command: %+v", q)
	}
}
