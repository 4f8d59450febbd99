package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestClaimLeavesForeignFoldersAlone(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	must.OK(t, os.WriteFile(precious, []byte("x"), 0o600))
	trial, err := newTrial(dir)
	must.OK(t, err)
	if err := trial.claim(); err == nil || hint.Of(err) == "" {
		t.Errorf("a folder with other things in it is claimed: %v", err)
	}
	if err := down(t.Context(), trial); err == nil {
		t.Error("a folder that is no trial's is removed")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestDeepFolderIsRefused(t *testing.T) {
	_, err := newTrial("/" + strings.Repeat("d", 100))
	if err == nil || !strings.Contains(hint.Of(err), "DEMO_DIR") {
		t.Errorf("a folder too deep for a socket: %v", err)
	}
}

func TestEnvironmentLeadsIntoTheFolder(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/user/.kube/config")
	t.Setenv("KUBEHSM_HOME", "/home/user/.kubehsm")
	t.Setenv("KUBERNETES_EXEC_INFO", "{}")
	trial, err := newTrial(t.TempDir())
	must.OK(t, err)
	env := trial.env()
	for _, want := range []string{"KUBECONFIG=" + trial.kubeconfig(), "KUBEHSM_HOME=" + trial.home(), "KUBERC=off"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, kv := range env {
		if strings.Contains(kv, "/home/user/") || strings.HasPrefix(kv, "KUBERNETES_EXEC_INFO=") {
			t.Errorf("%s is left", kv)
		}
	}
}
