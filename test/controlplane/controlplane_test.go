package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestVersionIsStamped(t *testing.T) {
	c := ForTest(t)
	out, err := c.Admin(t.Context(), "", "version", "-o", "json")
	must.OK(t, err)
	var v struct {
		ClientVersion, ServerVersion struct{ GitVersion, Major, Minor string }
	}
	must.OK(t, json.Unmarshal([]byte(out), &v))
	mod, err := os.ReadFile("../cluster/go.mod")
	must.OK(t, err)
	if v.ClientVersion != v.ServerVersion ||
		!strings.Contains(string(mod), "k8s.io/kubernetes "+v.ServerVersion.GitVersion+"\n") {
		t.Errorf("client %+v, server %+v: not the version of go.mod", v.ClientVersion, v.ServerVersion)
	}
}

// TestDetached covers what the trial does: the cluster is found by its folder, and
// a second start continues it with its data and port.
func TestDetached(t *testing.T) {
	bin, dir, ctx := binForTest(t, false), t.TempDir(), t.Context()
	o := Options{Bin: bin, Detached: true, NoControllers: true}
	stop := func() {
		if err := StopDir(context.Background(), dir); err != nil { // t's context may have ended by now
			t.Error(err)
		}
		if runs, err := Runs(dir); runs || err != nil {
			t.Errorf("it runs: %v, %v", runs, err)
		}
	}
	t.Cleanup(stop)
	stop()
	c, err := Start(ctx, dir, o)
	must.OK(t, err)
	if _, err := Start(ctx, dir, o); !errors.Is(err, ErrRunning) {
		t.Errorf("a second start in the folder: %v", err)
	}
	if runs, err := Runs(dir); !runs {
		t.Errorf("it does not run: %v", err)
	}
	must.OK(t, c.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: kept}}"))
	stop()
	again, err := Start(ctx, dir, o)
	must.OK(t, err)
	if again.Server() != c.Server() {
		t.Errorf("the API server moved from %s to %s", c.Server(), again.Server())
	}
	if _, err := again.Admin(ctx, "", "get", "namespace", "kept"); err != nil {
		t.Errorf("data from before the stop: %v", err)
	}
}

func TestStartFailureLeavesNothing(t *testing.T) {
	bin, dir := binForTest(t, false), t.TempDir()
	_, err := Start(t.Context(), dir, Options{Bin: bin, APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Fatalf("the error does not name the flag: %v", err)
	}
	s, err := readState(dir)
	must.OK(t, err)
	if len(s.Processes) != 0 {
		t.Errorf("processes are left on record: %v", s.Processes)
	}
}

func TestIdentTellsProcessesApart(t *testing.T) {
	self, err := Identify(os.Getpid())
	must.OK(t, err)
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
