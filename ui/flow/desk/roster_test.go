package desk

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// rosterPath is where the API has the roster.
const rosterPath = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/hardwaretokens"

// policies is where the API has the policy of the approver.
const policies = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/enrollmentpolicies"

// TestRoster: an import says whose tokens are, keeps the state of those that are there, and
// leaves other tokens alone.
func TestRoster(t *testing.T) {
	w := desk(t)
	for name, state := range map[string]string{"1": "Lost", "2": "Stock", "9": "Active"} {
		putToken(w.Server, name, flowtest.Object{"state": state, "owner": "joe"}, nil)
	}
	r := NewRoster(w.Env)
	n, err := r.Import(t.Context(), "", []RosterEntry{{Serial: "1", Owner: "jane"}, {Serial: "2", Owner: "jane",
		Groups: []string{"dev"}}, {Serial: "3"}}, false)
	if err != nil || n != 3 {
		t.Fatalf("%d written, %v", n, err)
	}
	board, err := r.Board(t.Context(), "", time.Now())
	must.OK(t, err)
	all := board.Tokens
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
	if _, err := r.Board(t.Context(), "", time.Now()); !strings.Contains(hint.Of(err), "install the approver") {
		t.Errorf("no roster in the cluster: %v, hint %q", err, hint.Of(err))
	}
}

func TestReadRoster(t *testing.T) {
	all, err := ReadRoster([]byte("\ufeffSerial, owner,groups,horizon,state\n1234567,jane,dev; ops,2027-06-30,\n"+
		"1234568,bob,,,Lost\n1234569,,,,\n"), "")
	if err != nil || len(all) != 3 || all[0].Owner != "jane" || strings.Join(all[0].Groups, "|") != "dev|ops" ||
		all[0].Horizon.Format("2006-01-02T15:04") != "2027-07-01T00:00" || all[1].State != "Lost" || all[2].Owner != "" {
		t.Errorf("%+v, %v", all, err)
	}
	for list, says := range map[string]string{
		"":                                "it is empty",
		"serial,owner\n":                  "it names no token",
		"owner,groups\n":                  "no column serial",
		"serial,name\n":                   `"name"`,
		"serial,serial\n":                 `"serial"`,
		"serial,owner\n1234567,a,b\n":     "wrong number of fields",
		"serial\n007\n":                   `"007" is no serial number`,
		"serial,owner\nABC,jane\n":        `line 2: "ABC" is no serial number`,
		"serial,owner\n1,a\n2,b\n1,c\n":   "line 4: the token 1 is in line 2 too",
		"serial,horizon\n1,soon\n":        `"soon" is no date`,
		"serial,owner,state\n1,a,Gone\n":  `"Gone" is no state`,
		"serial,groups\n1,dev\n":          "need an owner",
		"serial,state\n1,Active\n":        "need an owner",
		"serial,owner,groups\n1,a,x;x\n":  "named twice",
		"serial,owner\nx,a\ny,b\n":        `line 3: "y"`,
		"serial,owner,groups\n1,a,dev;\n": "is empty",
		// The cluster refuses what follows: before, others of the list would have been written.
		"serial,owner\n1,a\n2,system:b\n":                               `line 3: the name "system:b" is reserved`,
		"serial,owner,groups\n1,a,dev;kubehsm:x\n":                      `"kubehsm:x" is reserved`,
		"serial,owner\n1," + strings.Repeat("a", 254):                   "more than 253 characters",
		"serial,owner,groups\n1,a," + strings.Repeat("b;", 100) + "b\n": "101 groups are more than 64",
	} {
		if all, err := ReadRoster([]byte(list), ""); !errors.Is(err, ErrRoster) || !strings.Contains(err.Error(), says) ||
			all != nil {
			t.Errorf("%q: %v, %v; want %q", list, all, err, says)
		}
	}
}

// TestMakersList: of a maker's list only the serial numbers are read.
func TestMakersList(t *testing.T) {
	const list = "\ufeff\"Order\", Serial Number ,owner,State\nA-1,1234567,the customer,delivered\nA-1,1234568,,\n"
	all, err := ReadRoster([]byte(list), "serial number")
	if err != nil || len(all) != 2 || all[0].Serial != "1234567" || all[1].Serial != "1234568" || all[0].Owner != "" ||
		all[0].State != "" {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = ReadRoster([]byte(list), "serial")
	if !errors.Is(err, ErrRoster) || hint.Of(err) != "its columns are: order, serial number, owner, state" {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if _, err = ReadRoster([]byte("a,b,a\n1,2,3\n"), "A"); !errors.Is(err, ErrRoster) {
		t.Errorf("a column that is there twice: %v", err)
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
		putToken(w.Server, "1", flowtest.Object{"state": "Active", "owner": "jane", "groups": []string{"dev", "ops"}, "horizon": horizon}, nil)
		entries, err := ReadRoster([]byte(list), "")
		must.OK(t, err)
		r := NewRoster(w.Env)
		if _, err := r.Import(t.Context(), "", entries, false); err != nil {
			t.Fatal(err)
		}
		board, err := r.Board(t.Context(), "", time.Now())
		all := board.Tokens
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

// TestRosterConflict: of two admins who write a token at once, the second is told, and overwrites nothing.
func TestRosterConflict(t *testing.T) {
	for verb, there := range map[string]bool{"create": false, "update": true} {
		w := desk(t)
		put := func(owner string) {
			putToken(w.Server, "2", flowtest.Object{"state": "HandedOut", "owner": owner}, nil)
		}
		if there {
			put("joe")
		}
		other := sync.OnceFunc(func() { put("bob") })
		w.Server.Before(func(right string) flowtest.Fate {
			if right == verb+" hardwaretokens" && (there || slices.Contains(w.Server.Names(rosterPath), "1")) {
				other()
			}
			return 0
		})
		list := []RosterEntry{{Serial: "2", Owner: "jane"}}
		if !there {
			list = append([]RosterEntry{{Serial: "1", Owner: "jane"}}, list...)
		}
		n, err := NewRoster(w.Env).Import(t.Context(), "", list, false)
		if n != len(list)-1 || err == nil || !strings.Contains(hint.Of(err), "import the list again") {
			t.Errorf("%s: %d written, %v, hint %q", verb, n, err, hint.Of(err))
		}
		var token clusterapi.HardwareToken
		if !w.Server.Get(rosterPath, "2", &token) || token.Spec.Owner != "bob" {
			t.Errorf("%s: the token is %q's, not bob's", verb, token.Spec.Owner)
		}
	}
}

// TestBoard: each token is where the roster and its owner's last request say, and those that need
// somebody come first.
func TestBoard(t *testing.T) {
	w := desk(t)
	now := time.Now()
	token := func(serial, owner, state string, left time.Duration) {
		var status flowtest.Object
		if left != 0 {
			status = flowtest.Object{"notAfter": now.Add(left).UTC().Format(time.RFC3339)}
		}
		putToken(w.Server, serial, flowtest.Object{"state": state, "owner": owner}, status)
	}
	const day = 24 * time.Hour
	token("1", "amy", "HandedOut", 0)
	token("2", "bob", "HandedOut", 0)
	token("3", "cid", "Active", 6*day)
	token("4", "dan", "Active", day)
	token("5", "eve", "Active", -day)
	token("6", "fay", "Lost", 6*day)
	token("7", "gus", "Retired", -day)
	token("8", "", "Stock", 0)
	token("9", "hal", "HandedOut", 0)
	token("10", "hal", "Active", 6*day)
	token("11", "ida", "Active", 6*day)
	denied := func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied,
			Status: "True", Reason: "TooLong", Message: "it asks for a year"}}
	}
	earlier := func(r *certificatesv1.CertificateSigningRequest) {
		denied(r)
		r.CreationTimestamp.Time = now.Add(-time.Hour)
	}
	ticketFor := func(user string) func(r *certificatesv1.CertificateSigningRequest) {
		return func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Groups = ticket.Terms{User: user}.TokenGroups()
		}
	}
	w.Server.File("bob-1", "bob", "bob", nil, earlier)
	w.Server.File("bob-2", bootstraptoken.UserPrefix+"aaaaaa", "bob", nil, ticketFor("bob"))
	w.Server.File("eve-1", "eve", "eve", nil, denied)
	w.Server.File("hal-1", "hal", "hal", nil, denied) // request of the token that has no certificate
	// What others file in the name of an owner is not theirs.
	w.Server.File("cid-1", "x", "cid", nil, nil)
	w.Server.File("dan-1", bootstraptoken.UserPrefix+"aaaaaa", "dan", nil, ticketFor("bob"))
	w.Server.File("dan-2", bootstraptoken.UserPrefix+"bbbbbb", "dan", nil, func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Groups = []string{ticket.Group} // group of the join line for everybody
	})
	w.Server.File("ida-1", "ida", "ida", nil, nil) // a renewal
	w.Server.File("fay-1", "fay", "fay", nil, denied)
	r := NewRoster(w.Env)
	read := func() (Board, string) {
		t.Helper()
		b, err := r.Board(t.Context(), "", now)
		must.OK(t, err)
		var got []string
		for _, e := range b.Tokens {
			got = append(got, strings.TrimSpace(e.Serial+" "+string(e.Stage)+" "+e.Request+" "+e.Why))
		}
		return b, strings.Join(got, "; ")
	}
	b, got := read()
	if want := "2 waiting bob-2; 11 waiting ida-1; 5 denied eve-1 TooLong: it asks for a year; " +
		"9 denied hal-1 TooLong: it asks for a year; 4 expiring; 1 not come; 3 in; 10 in; 8 in stock; 6 lost; 7 retired"; got != want ||
		b.Unknown != "" {
		t.Errorf("the board is\n%s, want\n%s; unknown %q", got, want, b.Unknown)
	}
	w.Server.Forbid("list certificatesigningrequests")
	if b, got := read(); !strings.Contains(got, "5 expired") || strings.Contains(got, "waiting") || b.Unknown == "" {
		t.Errorf("without the requests the board is %s, unknown %q", got, b.Unknown)
	}
}

// TestBoardAttested: a request by the join line for everybody is that of the owner of the token that its
// key is attested to be in, by the roots of the cluster's policy.
func TestBoardAttested(t *testing.T) {
	w, m := desk(t), flowtest.NewMaker(t)
	onRoster(w.Server, "1", "amy", clusterapi.HandedOut)
	onRoster(w.Server, "2", "joe", clusterapi.HandedOut)
	for serial, want := range map[byte]Stage{1: "waiting", 2: "not come"} {
		// In the name of amy.
		file(t, m, w.Server, "line", filing{requester: bootstraptoken.UserPrefix + "aaaaaa", groups: []string{ticket.Group},
			serial: serial})
		for _, roots := range []string{"", "no PEM",
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Root.Raw}))} {
			w.Server.Put(policies, flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "EnrollmentPolicy",
				"metadata": flowtest.Object{"name": clusterapi.PolicyName, "namespace": clusterapi.Namespace},
				"spec":     flowtest.Object{"maxLifetime": "1h", "attestation": flowtest.Object{"roots": roots}}})
			b, err := NewRoster(w.Env).Board(t.Context(), "", time.Now())
			must.OK(t, err)
			stage := want
			if len(roots) < 10 { // the maker is not trusted
				stage = "not come"
			}
			for _, e := range b.Tokens {
				if e.Owner == "amy" && e.Stage != stage || e.Owner == "joe" && e.Stage != StageNotCome {
					t.Errorf("token %s of %s is %s; the key is in %d, roots %.10q", e.Serial, e.Owner, e.Stage, serial, roots)
				}
			}
		}
	}
}

// TestRemove: what is named by owner or serial number gets no further certificate, once.
func TestRemove(t *testing.T) {
	w := desk(t)
	put := func(serial, owner, state string) {
		putToken(w.Server, serial, flowtest.Object{"state": state, "owner": owner, "groups": []string{"dev"}}, flowtest.Object{"model": "YubiKey"})
	}
	put("1", "jane", "Active")
	put("2", "jane", "Lost")
	put("3", "joe", "Active")
	put("4", "", "Stock")
	r := NewRoster(w.Env)
	b, err := r.Board(t.Context(), "", time.Now())
	must.OK(t, err)
	if _, err := b.Named([]string{"nobody"}); !errors.Is(err, ErrNotListed) || hint.Of(err) == "" {
		t.Errorf("a name that is not there: %v", err)
	}
	all, err := b.Named([]string{"jane", "1"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	state := func(serial string) string {
		var o object
		w.Server.Get(rosterPath, serial, &o)
		return o.text("spec", "state") + " " + o.text("spec", "owner") + " " + o.text("status", "model")
	}
	if n, err := r.Remove(t.Context(), "", all, true); err != nil || n != 1 || state("1") != "Lost jane YubiKey" {
		t.Errorf("%d changed, %v; token 1 is %s", n, err, state("1"))
	}
	if n, err := r.Remove(t.Context(), "", all, false); err != nil || n != 2 || state("2") != "Retired jane YubiKey" {
		t.Errorf("%d changed, %v; token 2 is %s", n, err, state("2"))
	}
	put("3", "amy", "Active")
	for serial, says := range map[string]string{"3": "was given to", "4": "is in stock"} {
		all, err := b.Named([]string{serial})
		must.OK(t, err)
		before := state(serial)
		if n, err := r.Remove(t.Context(), "", all, false); err == nil || !strings.Contains(err.Error(), says) || n != 0 ||
			hint.Of(err) == "" || state(serial) != before {
			t.Errorf("token %s: %d changed, %v; it is %s", serial, n, err, state(serial))
		}
	}
}

// TestLeave: who leaves has no token in use and no ticket any more, also if they have a ticket and no token yet.
func TestLeave(t *testing.T) {
	for name, tokens := range map[string]int{"jane with a token": 1, "jane with a ticket alone": 0} {
		w := desk(t) // jane has the ticket abcdef
		if tokens > 0 {
			putToken(w.Server, "1", flowtest.Object{"state": "Active", "owner": "jane"}, nil)
		}
		putToken(w.Server, "3", flowtest.Object{"state": "Active", "owner": "joe"}, nil)
		r := NewRoster(w.Env)
		l, err := r.Leaving(t.Context(), "", []string{"jane"})
		if err != nil || len(l.Tokens) != tokens || !slices.Equal(l.Tickets, []string{"abcdef"}) || len(l.Unseen) > 0 {
			t.Fatalf("%s: %+v, %v", name, l, err)
		}
		n, err := r.Leave(t.Context(), "", l, false)
		if err != nil || n != tokens || slices.Contains(w.Server.Names(flowtest.Secrets), "bootstrap-token-abcdef") {
			t.Errorf("%s: %d tokens, %v; the secrets are %q", name, n, err, w.Server.Names(flowtest.Secrets))
		}
		if l, err := r.Leaving(t.Context(), "", []string{"3"}); err != nil || len(l.Tokens) != 1 || len(l.Tickets) > 0 {
			t.Errorf("a token: %+v, %v", l, err)
		}
		if _, err := r.Leaving(t.Context(), "", []string{"nobody"}); !errors.Is(err, ErrNotListed) {
			t.Errorf("nobody: %v", err)
		}
		w.Server.Forbid("list secrets")
		if l, err := r.Leaving(t.Context(), "", []string{"joe"}); err != nil || len(l.Tokens) != 1 || len(l.Unseen) != 1 {
			t.Errorf("without the right to list tickets: %+v, %v", l, err)
		}
	}
}

// TestRevokeRetires: a revocation by user or by token retires the tokens, so that the next request is denied, and a token
// is retired though it has no certificate.
func TestRevokeRetires(t *testing.T) {
	w := desk(t)
	for serial, owner := range map[string]string{"1": "jane", "2": "jane", "3": "joe", "4": "joe"} {
		putToken(w.Server, serial, flowtest.Object{"state": "Active", "owner": owner}, nil)
	}
	state := func() (all string) {
		for _, serial := range []string{"1", "2", "3", "4"} {
			var o object
			w.Server.Get(rosterPath, serial, &o)
			all += o.text("spec", "state") + " "
		}
		return all
	}
	revocations := NewRevocations(w.Env)
	r, err := revocations.LookUp(t.Context(), "", "jane", nil, nil)
	if err != nil || !slices.Equal(r.Tokens, []string{"1", "2"}) {
		t.Fatalf("%q, %v", r.Tokens, err)
	}
	if err := revocations.Revoke(t.Context(), "", &r); err != nil || !slices.Contains(r.Done, "token 2 retired") ||
		state() != "Retired Retired Active Active " {
		t.Errorf("by user: %v, done %q; the tokens are %s", err, r.Done, state())
	}
	stopping := NewStopping(w.Env)
	stop, err := stopping.Find(t.Context(), "", Sought{Token: "3"}, nil)
	if err != nil || len(stop.Tokens) != 1 || len(stop.Targets) > 0 {
		t.Fatalf("%+v, %v", stop, err)
	}
	if err := stopping.Stop(t.Context(), "", &stop, ""); err != nil || state() != "Retired Retired Retired Active " {
		t.Errorf("by token: %v; the tokens are %s", err, state())
	}
	for name, sought := range map[string]Sought{"of another": {Token: "4", User: "jane"}, "retired": {Token: "3"}} {
		if stop, err := stopping.Find(t.Context(), "", sought, nil); !errors.Is(err, errNoneKnown) {
			t.Errorf("%s: %+v, %v", name, stop, err)
		}
	}
}
