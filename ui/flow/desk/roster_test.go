package desk

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRoster: an import says whose tokens are, keeps the state of those that are there, and
// leaves other tokens alone.
func TestRoster(t *testing.T) {
	w := desk(t)
	const tokens = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/hardwaretokens"
	for name, state := range map[string]string{"1": "Lost", "2": "Stock", "9": "Active"} {
		w.Server.Put(tokens, flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": name, "namespace": clusterapi.Namespace},
			"spec":     flowtest.Object{"state": state, "owner": "joe"}})
	}
	r := NewRoster(w.Env)
	n, err := r.Import(t.Context(), "", []RosterEntry{{Serial: "1", Owner: "jane"}, {Serial: "2", Owner: "jane",
		Groups: []string{"dev"}}, {Serial: "3"}}, false)
	if err != nil || n != 3 {
		t.Fatalf("%d written, %v", n, err)
	}
	all, err := r.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range all {
		got[e.Serial] = e.Owner + " " + e.State + " " + strings.Join(e.Groups, ",")
	}
	for serial, want := range map[string]string{"1": "jane Lost ", "2": "jane HandedOut dev", "3": " Stock ", "9": "joe Active "} {
		if got[serial] != want {
			t.Errorf("token %s is %q, want %q", serial, got[serial], want)
		}
	}
	none := httptest.NewTLSServer(http.NotFoundHandler()) // as the API server answers for kinds that it does not know
	defer none.Close()
	flowtest.PointAt(t, w.Env, none)
	if _, err := r.List(t.Context(), ""); !strings.Contains(hint.Of(err), "install the approver") {
		t.Errorf("no roster in the cluster: %v, hint %q", err, hint.Of(err))
	}
}

func TestReadRoster(t *testing.T) {
	all, err := ReadRoster(strings.NewReader("\ufeffSerial, owner,groups,horizon,state\n1234567,jane,dev; ops,2027-06-30,\n" +
		"1234568,bob,,,Lost\n1234569,,,,\n"))
	if err != nil || len(all) != 3 || all[0].Owner != "jane" || strings.Join(all[0].Groups, "|") != "dev|ops" ||
		all[0].Horizon.Format("2006-01-02T15:04") != "2027-07-01T00:00" || all[1].State != "Lost" || all[2].Owner != "" {
		t.Errorf("%+v, %v", all, err)
	}
	for list, says := range map[string]string{
		"":                                "first line",
		"owner,groups\n":                  "no column serial",
		"serial,name\n":                   `"name"`,
		"serial,serial\n":                 `"serial"`,
		"serial,owner\n1234567,a,b\n":     "wrong number of fields",
		"serial\n007\n":                   `"007" is no serial number`,
		"serial,owner\nABC,jane\n":        `line 2: "ABC" is no serial number`,
		"serial,owner\n1,a\n2,b\n1,c\n":   "line 4: the token 1 is in line 2 too",
		"serial,horizon\n1,soon\n":        `"soon" is no date`,
		"serial,owner,state\n1,a,Gone\n":  `"Gone" is no state`,
		"serial,groups\n1,dev\n":          "it has no owner",
		"serial,state\n1,Active\n":        "it has no owner",
		"serial,owner,groups\n1,a,x;x\n":  "named twice",
		"serial,owner\nx,a\ny,b\n":        `line 3: "y"`,
		"serial,owner,groups\n1,a,dev;\n": "is empty",
	} {
		if all, err := ReadRoster(strings.NewReader(list)); !errors.Is(err, ErrRoster) || !strings.Contains(err.Error(), says) ||
			all != nil {
			t.Errorf("%q: %v, %v; want %q", list, all, err, says)
		}
	}
}

// What the roster has of columns that a list lacks stays; a cell that is empty clears.
func TestRosterKeeps(t *testing.T) {
	const horizon = "2027-07-01T00:00:00Z"
	for list, want := range map[string]string{
		"serial\n1\n":                              "jane Active dev,ops " + horizon,
		"serial,owner\n1,bob\n":                    "bob Active dev,ops " + horizon,
		"serial,owner,groups\n1,bob,ops\n":         "bob Active ops " + horizon,
		"serial,owner,groups,horizon\n1,bob,,\n":   "bob Active  ",
		"serial,owner,horizon\n1,bob,2028-01-01\n": "bob Active dev,ops 2028-01-02T00:00:00Z",
	} {
		w := desk(t)
		w.Server.Put("/apis/kubehsm.github.io/v1alpha1/namespaces/"+clusterapi.Namespace+"/hardwaretokens", flowtest.Object{
			"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
			"metadata": flowtest.Object{"name": "1", "namespace": clusterapi.Namespace},
			"spec":     flowtest.Object{"state": "Active", "owner": "jane", "groups": []string{"dev", "ops"}, "horizon": horizon}})
		entries, err := ReadRoster(strings.NewReader(list))
		if err != nil {
			t.Fatal(err)
		}
		r := NewRoster(w.Env)
		if _, err := r.Import(t.Context(), "", entries, false); err != nil {
			t.Fatal(err)
		}
		all, err := r.List(t.Context(), "")
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		got := all[0].Owner + " " + all[0].State + " " + strings.Join(all[0].Groups, ",") + " "
		if all[0].Horizon != nil {
			got += all[0].Horizon.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q leaves %q, want %q", list, got, want)
		}
	}
}
