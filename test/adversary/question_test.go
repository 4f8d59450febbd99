//go:build linux && cgo

package adversary

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// questionAttacks have the person say yes to something else, or not at all.
var questionAttacks = []attack{
	{name: "name-of-kubectl", run: nameOfKubectl},
	{name: "names-that-talk", run: namesThatTalk},
	{name: "type-ahead", run: typeAhead},
	{name: "body-unsaid", run: bodyUnsaid},
}

// nameOfKubectl: the adversary goes by kubectl's name.
func nameOfKubectl(s *stage) {
	thief := s.onTerminal(suite.program).signIn()
	thief.did(play.Order{Do: "name", Text: "kubectl"})
	thief.asked(thief.deletes("b"), "by the name of kubectl", thief, "Program", suite.program,
		strconv.Itoa(thief.id.PID))
	s.stands("b", "by the name of kubectl")
}

// namesThatTalk: names that would end their quotes and go on in kubehsm's words.
func namesThatTalk(s *stage) {
	thief := s.onTerminal(suite.program).signIn()
	for encoded, shown := range map[string]string{
		`b%22%20in%20%22staging%22%20(dry%20run)`: `\"`,
		"b%e2%80%9d%20in%20staging":               `\u201d`,
		"%d0%b0":                                  `\u0430`, // a Cyrillic letter that looks like a
	} {
		answer := thief.begin(play.Order{Do: "send", Method: "DELETE",
			Path: "/api/v1/namespaces/" + s.space + "/configmaps/" + encoded})
		if !s.shows(thief.screen, "delete", shown, question) {
			s.Wrong("the question about %s does not show %s:\n%s", encoded, shown, thief.screen.Screen())
		}
		thief.screen.Type("n\r")
		s.refused(thief.await(answer, "a name"), "a name that talks", http.StatusForbidden)
		thief.end()
		thief = s.onTerminal(suite.program).signIn() // a no holds for some seconds
	}
	s.nothingArrived("names that talk", 0)
}

// bodyUnsaid: the URL is harmless, the body is not.
func bodyUnsaid(s *stage) {
	bindings := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + s.space + "/rolebindings"
	const head = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"x"},` +
		`"subjects":[{"kind":"User","name":"mallory","apiGroup":"rbac.authorization.k8s.io"}],`
	role := func(name string) string {
		return `"roleRef":{"kind":"ClusterRole","name":"` + name + `","apiGroup":"rbac.authorization.k8s.io"}`
	}
	for _, c := range []struct {
		body  string
		shown []string
	}{
		{head + role("cluster-admin") + "}", []string{`"cluster-admin"`, `"mallory"`}},
		{head + role("view") + "," + role("cluster-admin") + "}", []string{"it has a field twice"}},
	} {
		thief := s.onTerminal(suite.program).signIn() // a no holds for some seconds
		answer := thief.begin(play.Order{Do: "send", Method: "POST", Path: bindings, Body: c.body,
			Header: map[string][]string{"Content-Type": {"application/json"}}})
		sum := sha256.Sum256([]byte(c.body))
		shown := append(c.shown, "create rolebindings", hex.EncodeToString(sum[:8]), question)
		if !s.shows(thief.screen, shown...) {
			s.Wrong("the question does not say %q, nor the digest %x:\n%s", c.shown, sum[:8], thief.screen.Screen())
		}
		thief.screen.Type("n\r")
		s.refused(thief.await(answer, "a body"), "a body", http.StatusForbidden)
		thief.end()
	}
	s.nothingArrived("a body", 0)
}

// typeAhead: a yes that is typed before the question is no answer.
func typeAhead(s *stage) {
	thief := s.onTerminal(suite.program).signIn()
	thief.screen.Type("y\ry\ry\r")
	thief.did(play.Order{Do: "name", Text: "ahead"}) // the keys are in the queue by now
	answer := thief.begin(thief.deletes("b"))
	if !s.shows(thief.screen, question) {
		s.Wrong("it was not asked:\n%s", thief.screen.Screen())
	}
	thief.screen.Type("n\r")
	a := thief.await(answer, "type-ahead")
	s.refused(a, "type-ahead", http.StatusForbidden)
	if !strings.Contains(a.Body, "it was refused") {
		s.Wrong("the no is not what counts: %+v", a)
	}
	s.nothingArrived("type-ahead", 0)
	s.stands("b", "type-ahead")
}
