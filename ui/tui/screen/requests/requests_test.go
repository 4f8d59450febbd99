package requests_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	flow "github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// request is one for user, filed by requester before the rig's time.
func request(t *testing.T, name, requester, user string, age time.Duration,
	groups ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}, key)
	must.OK(t, err)
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(tuitest.Now().Add(-age))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: csr.ClientSigner,
			Username: requester, Usages: []certificatesv1.KeyUsage{"client auth"},
		},
	}
}

// open shows the requests of a cluster: jane's own, and one that mallory filed for
// another.
func open(t *testing.T) (*screentest.Rig, *flowtest.Server) {
	t.Helper()
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	server.Put(flowtest.Requests, request(t, "kubehsm-jane", "jane", "jane", 7*time.Minute, "dev"))
	server.Put(flowtest.Requests, request(t, "mallory-1", "mallory", "root", time.Minute, "system:masters"))
	r := w.Open("3")
	r.Sees("2 requests pending", "jane", "mallory")
	return r, server
}

// look opens the closer look at jane's request.
func look(t *testing.T) (*screentest.Rig, *flowtest.Server) {
	t.Helper()
	r, server := open(t)
	r.Walk("/", `"dev"`, "enter", "enter", "~kubehsm-jane", "~State     pending")
	return r, server
}

func condition(t *testing.T, server *flowtest.Server, name string) (kind, message string) {
	t.Helper()
	var got certificatesv1.CertificateSigningRequest
	if !server.Get(flowtest.Requests, name, &got) {
		t.Fatalf("%s is not there", name)
	}
	for _, c := range got.Status.Conditions {
		kind, message = string(c.Type), c.Message
	}
	return kind, message
}

// TestFollowsTheCluster: what is filed, decided and removed elsewhere comes and goes,
// and the cursor stays where it is.
func TestFollowsTheCluster(t *testing.T) {
	r, server := open(t)
	r.Press("/", `"dev"`, "enter", "esc")
	server.Put(flowtest.Requests, request(t, "late-1", "late", "late", -time.Second, "dev"))
	r.Sees("3 requests pending", "late asks for a certificate for late")
	server.Delete(flowtest.Requests, "mallory-1")
	r.Sees("2 requests pending")
	var decided certificatesv1.CertificateSigningRequest
	server.Get(flowtest.Requests, "late-1", &decided)
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True"}}
	server.Put(flowtest.Requests, &decided)
	r.Walk("~1 request pending", "1")
	server.Put(flowtest.Requests, request(t, "later-1", "later", "later", -time.Second))
	r.Sees("later asks for a certificate for later") // also where another screen is in front
	r.Walk("3", "tab", "~3 requests in all", "~denied")
}

// TestApprove: wrong words approve nothing, the right ones do, with what was said.
func TestApprove(t *testing.T) {
	r, server := look(t)
	r.Walk("a", "~Approve it?", "~jane in dev", "enter", "~that does not match: type the eight words", `"y"`, "enter",
		"~that does not match: type the eight words", "ctrl+u", `"abandon ability zebra"`, "enter",
		"~that does not match: type the eight words")
	if kind, _ := condition(t, server, "kubehsm-jane"); kind != "" {
		t.Fatalf("it is %s", kind)
	}
	r.Press("ctrl+u", `"`+words(t, server, "kubehsm-jane")+`"`, "tab", `"asked on the phone"`, "enter")
	r.Sees("kubehsm-jane: approved", "State     approved")
	if kind, message := condition(t, server, "kubehsm-jane"); kind != "Approved" ||
		!strings.Contains(message, "asked on the phone") {
		t.Errorf("%s: %q", kind, message)
	}
	r.Walk("a", "~approve: it is approved")
	var filed certificatesv1.CertificateSigningRequest
	server.Get(flowtest.Requests, "kubehsm-jane", &filed)
	filed.Status.Certificate = []byte("issued")
	filed.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
	server.Put(flowtest.Requests, &filed)
	r.Walk("r", "~State     issued")
}

func TestDeny(t *testing.T) {
	r, server := look(t)
	r.Walk("d", "~Deny it, for good?", "esc")
	r.Loses("Deny it, for good?")
	if kind, _ := condition(t, server, "kubehsm-jane"); kind != "" {
		t.Fatalf("it is %s", kind)
	}
	r.Walk("d", "~Deny it, for good?", "enter", "~State     denied")
	if kind, _ := condition(t, server, "kubehsm-jane"); kind != "Denied" {
		t.Errorf("it is %s", kind)
	}
}

// TestChangedMeanwhile: a request that another one has decided, or removed, meanwhile is
// not decided again.
func TestChangedMeanwhile(t *testing.T) {
	r, server := look(t)
	r.Walk("d", "~Deny it, for good?")
	server.Delete(flowtest.Requests, "kubehsm-jane")
	r.Walk("enter", "~error: ")
	if names := server.Names(flowtest.Requests); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

// TestOwnIsRefused: one's own request is refused with what to do, unless that is
// chosen.
func TestOwnIsRefused(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("jane", "dev")
	server.Put(flowtest.Requests, request(t, "kubehsm-jane", "jane", "jane", time.Minute, "dev"))
	r := w.Open("3")
	r.Walk("~1 request pending", "enter", "~State     pending", "a", "~Approve it?", `"jane"`, "enter", "~error: ",
		"~own", "~hint: ")
	if kind, _ := condition(t, server, "kubehsm-jane"); kind != "" {
		t.Fatalf("it is %s", kind)
	}
	r.Walk("esc", "a", "~Approve it?", `"jane"`, "tab", "tab", "down", "enter", "~State     approved", "x",
		"~kubehsm csr approve kubehsm-jane --own --accept-risk user:jane")
}

// TestGone: a cluster that is not there is said so, and looked for again.
func TestGone(t *testing.T) {
	w := screentest.New(t)
	r := w.Open("3")
	r.Sees("error: ", "cannot reach the API server", "r tries again")
	server := w.Cluster("admin")
	server.Put(flowtest.Requests, request(t, "kubehsm-jane", "jane", "jane", time.Minute))
	r.Walk("r", "~1 request pending")
}

// TestForbidden: who may not list sees what was filed from here, and the role to
// ask for.
func TestForbidden(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("jane", "dev")
	server.Forbid("list certificatesigningrequests", "watch certificatesigningrequests")
	r := w.Open("3")
	r.Walk("~You may not list the requests", "o", "~The role to ask for", "~kubectl", "~c copy role", "c")
	r.Until("copied", func() bool { return strings.Contains(r.Copied(), "certificatesigningrequests") })
}

// TestMine: what was filed from here with a token's key is listed, and taken back
// after a yes.
func TestMine(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("jane", "dev")
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	r := w.Open("")
	r.Walk("~9a", "enter", "~change PIN", "s", "~A request for the key in", `"jane"`, "tab", `"dev"`, "enter")
	r.Type("PIN of", "123456")
	r.Sees("is filed: it must be approved now")
	names := server.Names(flowtest.Requests)
	if len(names) != 1 {
		t.Fatalf("filed: %q", names)
	}
	var filed certificatesv1.CertificateSigningRequest
	server.Get(flowtest.Requests, names[0], &filed)
	found, err := csr.InspectRequest(filed.Spec.Request)
	if err != nil || found.Subject.User != "jane" || fmt.Sprint(found.Subject.Groups) != "[dev]" ||
		!hsm.SameKey(found.PublicKey, key.Key.Public) {
		t.Errorf("filed: %+v, %v", found, err)
	}
	r.Walk("3", "~1 request pending", "D", "~withdraw: only what was filed from here", "tab", "tab",
		"~1 request filed from here", "D", "~Withdraw "+names[0]+"?")
	r.Press("enter") // the focus is on no
	r.Walk("~Withdraw the request: cancelled", "D", "~Withdraw "+names[0]+"?", "y")
	r.Until("withdrawn", func() bool { return len(server.Names(flowtest.Requests)) == 0 })
}

// TestSecondPerson: nobody approves a break-glass request of their own.
func TestSecondPerson(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("jane", "dev")
	asked := request(t, "break-1", "jane", "jane", time.Minute, flow.BreakGlassGroup)
	asked.Spec.ExpirationSeconds = new(int32(3600))
	asked.Annotations = map[string]string{csr.ReasonAnnotation: "the cluster is on fire"}
	server.Put(flowtest.Requests, asked)
	r := w.Open("3")
	r.Walk("~"+flow.BreakGlassGroup, "enter", "~State     pending", "a", "~Approve it?")
	if strings.Contains(r.View(), "If yours") {
		t.Errorf("break-glass without a second person:\n%s", r.View())
	}
	r.Walk(`"jane"`, "enter", "~error: ", "~is your own")
	if kind, _ := condition(t, server, "break-1"); kind != "" {
		t.Errorf("it is %s", kind)
	}
}

// putTicket has the cluster keep the ticket abcdef.
func putTicket(server *flowtest.Server, user string, groups ...string) {
	server.Put(flowtest.Secrets, flowtest.Object{"apiVersion": "v1", "kind": "Secret",
		"type":     "bootstrap.kubernetes.io/token",
		"metadata": flowtest.Object{"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
		"data": map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "expiration": []byte("2126-11-21T09:30:00Z"),
			"usage-bootstrap-authentication": []byte("true"), "description": []byte(ticket.Terms{User: user, Groups: groups}.Description())}})
}

// words are the eight words of the key in a request.
func words(t *testing.T, server *flowtest.Server, name string) string {
	t.Helper()
	var filed certificatesv1.CertificateSigningRequest
	server.Get(flowtest.Requests, name, &filed)
	found, err := csr.InspectRequest(filed.Spec.Request)
	must.OK(t, err)
	all, err := csr.FingerprintWords(found.SPKIHash)
	must.OK(t, err)
	return strings.Join(all, " ")
}

// TestTicket: where nothing else proves the key, the approver must type its words. The
// decision ends the ticket.
func TestTicket(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	putTicket(server, "jane", "dev")
	asked := request(t, "joined-1", "system:bootstrap:abcdef", "jane", time.Minute, "dev")
	asked.Spec.Groups = []string{ticket.Group}
	server.Put(flowtest.Requests, asked)
	r := w.Open("3")
	r.Walk("~jane", "enter", "~nothing proves whose key this is: have jane read the words to you", "a",
		"~Approve it?")
	r.Press(`"jane"`, "enter") // a thief of the ticket knows the name, too
	r.Sees("that does not match: type the eight words as they are read to you")
	if kind, _ := condition(t, server, "joined-1"); kind != "" {
		t.Fatalf("it is %s", kind)
	}
	r.Press("ctrl+u", `"`+words(t, server, "joined-1")+`"`, "enter")
	r.Until("approved", func() bool { kind, _ := condition(t, server, "joined-1"); return kind == "Approved" })
	server.Issue("joined-1")
	r.Sees("joined-1: approved", "issued")
	if left := server.Names(flowtest.Secrets); len(left) != 0 {
		t.Errorf("the ticket is there: %q", left)
	}
}

// TestBreakGlass: the second person's approval is on record.
func TestBreakGlass(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	asked := request(t, "break-1", "jane", "jane", time.Minute, flow.BreakGlassGroup)
	asked.Spec.ExpirationSeconds = new(int32(3600))
	asked.Annotations = map[string]string{csr.ReasonAnnotation: "the cluster is on fire"}
	server.Put(flowtest.Requests, asked)
	r := w.Open("3")
	r.Walk("~"+flow.BreakGlassGroup, "enter", "~the cluster is on fire", "a", "~Approve it?", `"jane"`, "tab",
		`"called back"`, "enter", "~break-1: approved")
	if kind, _ := condition(t, server, "break-1"); kind != "Approved" {
		t.Errorf("it is %s", kind)
	}
}

// TestRefusals: a request that does not match its ticket cannot be approved, and the screen
// says why. It can be denied.
func TestRefusals(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	putTicket(server, "jane", "dev")
	asked := request(t, "mallory-1", "system:bootstrap:abcdef", "mallory", time.Minute, "system:masters")
	asked.Spec.Groups = []string{ticket.Group}
	server.Put(flowtest.Requests, asked)
	r := w.Open("3")
	r.Walk("~mallory", "enter", `~it asks for the user "mallory", its ticket is for "jane"`,
		`~Ticket for  the user "jane", in "dev"`, "a", "~approve: ")
	if strings.Contains(r.View(), "Approve it?") {
		t.Errorf("the request can be approved:\n%s", r.View())
	}
	r.Walk("x", "~--accept-risk mismatch", "esc", "d", "~Deny it, for good?",
		"~that it was filed with is ended, too.", "enter", "~mallory-1: denied")
	if kind, _ := condition(t, server, "mallory-1"); kind != "Denied" {
		t.Errorf("it is %s", kind)
	}
	if left := server.Names(flowtest.Secrets); len(left) != 0 {
		t.Errorf("the ticket is there: %q", left)
	}
}

// TestDenyWithoutTerms: a bootstrap token without a ticket's terms stays when a request that was
// filed with it is denied, and the form says so.
func TestDenyWithoutTerms(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	server.Put(flowtest.Secrets, flowtest.Object{"metadata": flowtest.Object{"name": "bootstrap-token-abcdef",
		"namespace": "kube-system"}})
	asked := request(t, "mallory-1", "system:bootstrap:abcdef", "mallory", time.Minute)
	asked.Spec.Groups = []string{ticket.Group}
	server.Put(flowtest.Requests, asked)
	r := w.Open("3")
	r.Walk("~mallory", "enter", "~no ticket is known here", "d", "~Deny it, for good?",
		"~with stays: others may use it.", "enter", "~mallory-1: denied")
	if left := server.Names(flowtest.Secrets); len(left) != 1 {
		t.Errorf("the token is deleted: %q", left)
	}
}

// TestManyRequests: the list takes several pages of requests, and can be
// filtered and walked.
func TestManyRequests(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	one := request(t, "", "jane", "jane", time.Hour, "dev")
	for i := range 1_100 {
		one.Name, one.Spec.Username = fmt.Sprintf("request-%d", i), fmt.Sprintf("user-%d", i)
		server.Put(flowtest.Requests, one)
	}
	r := w.Open("3")
	r.Walk("~1100 requests pending", "/", `"user-108"`, "~11 requests of 1100", "esc", "G")
	r.Sees("user-999") // requests of the same age are sorted by name
}

// TestIssued: the details of an approved request tell, without a key, when the certificate is
// there.
func TestIssued(t *testing.T) {
	r, server := look(t)
	r.Walk("a", "~Approve it?", `"jane"`, "enter", "~State     approved")
	server.Issue("kubehsm-jane")
	r.Time = r.Time.Add(3 * time.Second)
	r.Walk("~State     issued", "d", "~deny: it is issued")
}

// TestCopies: the screen copies the name and the fingerprint, and shows the commands that do
// the same.
func TestCopies(t *testing.T) {
	r, server := open(t)
	copied := func(key, want string) {
		t.Helper()
		r.Press(key)
		r.Until("copied "+want, func() bool { return r.Copied() == want })
	}
	r.Press("/", `"dev"`, "enter")
	copied("c", "kubehsm-jane")
	r.Walk("x", "~kubehsm csr list --pending --watch", "~kubehsm csr show kubehsm-jane", "esc", "o",
		"~role to ask for: you may list them", "enter", "~State     pending")
	copied("c", "kubehsm-jane")
	var filed certificatesv1.CertificateSigningRequest
	server.Get(flowtest.Requests, "kubehsm-jane", &filed)
	found, err := csr.InspectRequest(filed.Spec.Request)
	must.OK(t, err)
	copied("f", found.SPKIHash)
	r.Press("x")
	r.Sees("kubehsm csr show kubehsm-jane", "kubehsm csr approve kubehsm-jane", "kubehsm csr deny kubehsm-jane")
}

// TestFileAgain: a request that was signed here and could not be filed is filed.
func TestFileAgain(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("jane", "dev")
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	r := w.Open("")
	r.Walk("~9a", "enter", "~change PIN")
	server.Forbid("create certificatesigningrequests")
	r.Walk("s", "~A request for the key in", `"jane"`, "enter")
	r.Type("PIN of", "123456")
	r.Sees("error: ")
	server.Allow("create certificatesigningrequests")
	r.Walk("esc", "3", "~0 requests pending", "tab", "tab", "~1 request filed from here", "~not filed", "s",
		"~: pending")
	r.Loses("not filed")
	if names := server.Names(flowtest.Requests); len(names) != 1 {
		t.Errorf("filed: %q", names)
	}
	r.Walk("s", "~file it again: it was filed")
}
