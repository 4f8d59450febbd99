package roster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

const tokens = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/hardwaretokens"

// open shows the board of a cluster with the tokens of jane, who is in, and joe, who has not come.
func open(t *testing.T) (*screentest.Rig, *flowtest.Server) {
	t.Helper()
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	for serial, owner := range map[string]string{"1": "jane", "2": "joe"} {
		o := flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": serial, "namespace": clusterapi.Namespace},
			"spec":     flowtest.Object{"owner": owner, "state": "HandedOut"}}
		if owner == "jane" {
			o["status"] = flowtest.Object{"notAfter": tuitest.Now().Add(90 * time.Hour).Format(time.RFC3339)}
		}
		server.Put(tokens, o)
	}
	r := w.Open("5")
	r.Walk("~roster", "T", "~2 tokens: 1 not come, 1 in")
	return r, server
}

// TestRemove: a token is made lost after a yes, and the board shows it.
func TestRemove(t *testing.T) {
	r, server := open(t)
	state := func() string {
		var o flowtest.Object
		server.Get(tokens, "2", &o)
		spec, _ := o["spec"].(flowtest.Object)
		s, _ := spec["state"].(string)
		return s
	}
	lose := func() {
		r.Walk("D", "~What became of it?", "enter", "~Mark 1 token as lost?", "~Token 2 of joe.")
	}
	lose()
	r.Walk("n", "~cancelled")
	if state() != "HandedOut" {
		t.Fatalf("the token is %s", state())
	}
	lose()
	r.Walk("y", "~2 tokens: 1 in, 1 lost")
	if state() != "Lost" {
		t.Errorf("the token is %s", state())
	}
}

// TestImport: a list is shown before it is written; one that is wrong is not.
func TestImport(t *testing.T) {
	r, server := open(t)
	file := filepath.Join(t.TempDir(), "people.csv")
	write := func(list string) {
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Walk("i", "~A list of tokens", `"`+file+`"`, "enter")
	}
	write("serial,owner\nx,amy\n")
	r.Walk(`~"x" is no serial number`, "esc")
	write("serial,owner\n3,amy\n4,bob\n")
	r.Walk("~Write 2 tokens on the roster?", "~amy", "y", "~4 tokens: 3 not come, 1 in")
	if n := len(server.Names(tokens)); n != 4 {
		t.Errorf("%d tokens", n)
	}
}

// TestNoRoster: a roster that may not be read is said so, with what to do.
func TestNoRoster(t *testing.T) {
	r, server := open(t)
	server.Forbid("list hardwaretokens")
	r.Walk("r", "~error: ", "~hint: ", "~r tries again")
}

// TestApprove: what nothing proves is left for a closer look.
func TestApprove(t *testing.T) {
	r, server := open(t)
	server.File("joe-1", "joe", "joe", nil, nil)
	r.Walk("r", "~1 waiting", "a", "~No pending request proves what it claims.", "~1 request needs a closer look")
}

// TestLine: one line for everybody is shown, with the cluster's authority in it where the cluster shows
// nothing, and can be copied.
func TestLine(t *testing.T) {
	r, server := open(t)
	r.Walk("n", "~A join line for everybody", `"dev"`, "enter", "~Everybody on the roster types",
		"~kubehsm join --discovery-file", "c")
	r.Until("copied", func() bool { return strings.HasSuffix(r.Copied(), "--group dev --expiration 168h") })
	if n := len(server.Names(flowtest.Secrets)); n != 1 {
		t.Errorf("%d bootstrap tokens", n)
	}
	r.Walk("esc", "n", "~A join line for everybody", "tab", "tab", "right", "enter")
	r.Sees("make a file-only token") // which this server cannot
	if n := len(server.Names(flowtest.Secrets)); n != 1 {
		t.Errorf("%d bootstrap tokens beside a file-only one", n)
	}
}
