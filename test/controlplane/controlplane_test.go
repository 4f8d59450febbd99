package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestSharedClusterServes(t *testing.T) {
	c := ForTest(t)
	if again := ForTest(t); again != c {
		t.Error("a second call gave another cluster")
	}
	out, err := c.Admin(t.Context(), "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if err != nil {
		t.Fatal(err)
	}
	if out != "test-admin" {
		t.Errorf("the admin is %q", out)
	}
}

func TestVersionIsStamped(t *testing.T) {
	c := ForTest(t)
	out, err := c.Admin(t.Context(), "", "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		ClientVersion, ServerVersion struct{ GitVersion, Major, Minor string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../cluster/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if v.ClientVersion != v.ServerVersion ||
		!strings.Contains(string(mod), "k8s.io/kubernetes "+v.ServerVersion.GitVersion+"\n") {
		t.Errorf("client %+v, server %+v: not the version of go.mod", v.ClientVersion, v.ServerVersion)
	}
}

func TestKubeconfigForHasItsIdentity(t *testing.T) {
	c := ForTest(t)
	file, err := c.KubeconfigFor("jane", "dev", "ops")
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Admin(t.Context(), "", "--kubeconfig="+file, "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	if err != nil {
		t.Fatal(err)
	}
	if want := `jane ["dev","ops","system:authenticated"]`; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig's mode is %v", info.Mode())
	}
}

func TestSignClientTakesAnyValidity(t *testing.T) {
	c := ForTest(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	der, err := c.SignClient(key.Public(), "late", nil, past.Add(-time.Hour), past)
	if err != nil || len(der) == 0 {
		t.Fatalf("an expired certificate: %d bytes, %v", len(der), err)
	}
}

// TestLifecycle covers what tests do to a cluster of their own: restart and
// stop its parts, and stop it whole, with nothing left.
func TestLifecycle(t *testing.T) {
	c := StartForTest(t, Options{APIServerFlags: []string{"--runtime-config=autoscaling/v1=false"}})
	ctx := t.Context()
	before := c.state.Processes
	if len(before) != 3 {
		t.Fatalf("%d processes are recorded, want 3", len(before))
	}
	if err := c.Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}}"); err != nil {
		t.Fatal(err)
	}
	server := c.Server()
	if err := c.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if c.Server() != server || c.state.Processes[string(APIServer)] == before[string(APIServer)] {
		t.Error("the API server did not restart in its place")
	}
	if _, err := c.Admin(ctx, "", "get", "configmap", "kept"); err != nil {
		t.Errorf("data from before the restart: %v", err)
	}
	if versions, err := c.Admin(ctx, "", "api-versions"); err != nil || strings.Contains(versions, "autoscaling/v1\n") {
		t.Errorf("the extra flag does not count: %v, %s", err, versions)
	}
	if err := c.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Admin(ctx, "", "get", "configmap", "kept"); err == nil {
		t.Error("a stopped API server answered")
	}
	if err := c.StopControllers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.StartControllers(ctx); err != nil {
		t.Fatal(err)
	}
	var all []Ident
	for _, p := range c.procs {
		all = append(all, p.Ident)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(all, before[string(Etcd)], before[string(APIServer)]) {
		if id.Alive() {
			t.Errorf("process %d is left", id.PID)
		}
	}
}

// TestDetached covers what the trial does: another Cluster value takes over by
// the folder, and a second start continues it with its data and port.
func TestDetached(t *testing.T) {
	bin, dir, ctx := binForTest(t, false), t.TempDir(), t.Context()
	o := Options{Bin: bin, Detached: true, NoControllers: true}
	t.Cleanup(func() {
		if err := StopDir(context.Background(), dir); err != nil { // t's context has ended by now
			t.Error(err)
		}
	})
	if _, err := Attach(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("attach to nothing: %v", err)
	}
	c, err := Start(ctx, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(ctx, dir, o); !errors.Is(err, ErrRunning) {
		t.Errorf("a second start in the folder: %v", err)
	}
	if err := c.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: kept}}"); err != nil {
		t.Fatal(err)
	}
	other, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := StopDir(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("attach after the stop: %v", err)
	}
	again, err := Start(ctx, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if again.Server() != c.Server() {
		t.Errorf("the API server moved from %s to %s", c.Server(), again.Server())
	}
	if _, err := again.Admin(ctx, "", "get", "namespace", "kept"); err != nil {
		t.Errorf("data from before the stop: %v", err)
	}
	if err := StopDir(ctx, dir); err != nil {
		t.Fatal(err)
	}
}

func TestStartFailureLeavesNothing(t *testing.T) {
	bin, dir := binForTest(t, false), t.TempDir()
	_, err := Start(t.Context(), dir, Options{Bin: bin, APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Fatalf("the error does not name the flag: %v", err)
	}
	s, err := readState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Processes) != 0 {
		t.Errorf("processes are left on record: %v", s.Processes)
	}
}

func TestIdentTellsProcessesApart(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	other := Ident{PID: self.PID, Started: self.Started + "0"}
	if other.Alive() {
		t.Error("a process of the same pid and another start is taken for this one")
	}
	if err := (Ident{}).End(t.Context(), time.Second); err != nil {
		t.Errorf("end nothing: %v", err)
	}
	if err := other.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a successor: %v", err)
	}
}

func TestReplaceFileKeepsTheOldOnError(t *testing.T) {
	dir := t.TempDir()
	if err := replaceFile(filepath.Join(dir, "missing", "f"), []byte("x")); err == nil {
		t.Error("no error for a missing folder")
	}
	if err := replaceFile(filepath.Join(dir, "f"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%d files are left, want 1", len(entries))
	}
}
