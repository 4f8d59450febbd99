package consent

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
)

func rules(words ...string) Policy {
	p := Policy{Mode: Rules}
	for _, w := range words {
		r, err := ParseRule(w)
		if err != nil {
			panic(err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

// TestCovers: which changes of a policy lower it. What cannot be compared does.
func TestCovers(t *testing.T) {
	session, writes, always := Policy{}, Policy{Mode: Writes}, Policy{Mode: Always}
	deletes, secrets := rules("verbs=delete"), rules("verbs=get,list resources=secrets")
	for _, c := range []struct {
		p, old Policy
		want   bool
	}{
		{session, session, true}, {Policy{Mode: Session}, session, true}, {writes, session, true}, {always, session, true}, {deletes, session, true},
		{session, writes, false}, {session, always, false}, {session, deletes, false},
		{always, writes, true}, {writes, always, false}, {always, always, true}, {writes, writes, true},
		{writes, deletes, true}, {writes, secrets, false}, {writes, rules("verbs=write dry-run"), false}, {writes, rules("verbs=write,connect resources=pods"), true},
		{always, secrets, true}, {always, rules("verbs=get"), false}, {always, rules("verbs=get resources=*"), false}, {always, rules("verbs=list"), true},
		{deletes, writes, false}, {rules("verbs=write"), writes, true}, {rules("verbs=*"), writes, true}, {rules("verbs=write namespaces=a"), writes, false}, {rules("verbs=*"), always, false},
		{deletes, secrets, false}, {secrets, deletes, false}, {rules("verbs=delete", "verbs=get,list resources=secrets"), secrets, true},
		{rules("verbs=get,list,watch resources=secrets,pods"), secrets, true}, {rules("verbs=get resources=secrets"), secrets, false},
		{rules("verbs=get,list resources=secrets namespaces=a"), secrets, false}, {secrets, rules("verbs=get resources=secrets namespaces=a"), true},
		{rules("verbs=delete"), rules("verbs=deletecollection"), true}, {rules("verbs=create"), rules("verbs=connect"), true}, {rules("verbs=delete"), rules("verbs=delete dry-run"), false},
		{Policy{Mode: "unknown"}, always, true}, {always, Policy{Mode: "unknown"}, false},
		{Strictest(deletes, secrets), secrets, true}, {Strictest(deletes, secrets), deletes, true}, {deletes, Strictest(deletes, secrets), false}, {always, Strictest(deletes, secrets), true},
	} {
		if got := c.p.Covers(c.old); got != c.want {
			t.Errorf("%s (and %d) covers %s (and %d): %t", c.p, len(c.p.also), c.old, len(c.old.also), got)
		}
	}
}

// TestCoversHolds holds [Policy.Covers] and [Strictest] against [Policy.Needs], with
// requests of all kinds.
func TestCoversHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	rule := func() string {
		return fmt.Sprintf("verbs=%s resources=%s namespaces=%s%s", pick(ruleVerbs...)+","+pick(ruleVerbs...),
			pick("*", "pods", "secrets", "pods/exec"),
			pick("*", "a", "b", "a,b"), pick("", "", " dry-run"))
	}
	policy := func() Policy {
		switch r.IntN(5) {
		case 0:
			return Policy{Mode: Writes}
		case 1:
			return Policy{Mode: Always}
		case 2:
			return Policy{}
		}
		return rules([]string{rule(), rule()}[:1+r.IntN(2)]...)
	}
	var requests []Request
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, target := range []string{"/api/v1/pods", "/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/b/secrets/s",
			"/api/v1/namespaces/a/secrets", "/version", "/metrics",
			"/api/v1/namespaces/a/pods/p/exec", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/api/v1/namespaces/a/pods?watch=1", "/api/v1/proxy/namespaces/a/pods/p"} {
			for _, query := range []string{"", "dryRun=All"} {
				for _, h := range []http.Header{nil, {"Impersonate-User": {"jane"}}} {
					sep := "?"
					if len(target) > 8 && target[len(target)-2] == '=' {
						sep = "&"
					}
					requests = append(requests, Parse(method, target+sep+query, h, false))
				}
			}
		}
	}
	needs := func(p Policy, q Request) bool {
		n, err := p.Needs(q)
		return n || err != nil
	}
	covered := 0
	for range 4000 {
		p, old := policy(), policy()
		both, covers := Strictest(p, old), p.Covers(old)
		if covers {
			covered++
		}
		for _, q := range requests {
			if covers && needs(old, q) && !needs(p, q) {
				t.Fatalf("%s covers %s, and does not ask for: %s", p, old, q)
			}
			if got, want := needs(both, q), needs(p, q) || needs(old, q); got != want {
				t.Fatalf("the strictest of %s and %s: %t for: %s", p, old, got, q)
			}
		}
		if again := ParsePolicy(p.String()); again.String() != p.String() || !again.Covers(p) {
			t.Fatalf("%s is read as %s", p, again)
		}
	}
	if covered < 100 {
		t.Fatalf("only %d were comparable", covered)
	}
}

// TestStrictestIsBounded: whoever writes thousands of policies into the user's files, each one
// about something else, makes nobody wait, and gets nothing let through.
func TestStrictestIsBounded(t *testing.T) {
	long := Policy{Mode: Rules}
	for i := range maxRules {
		long.Rules = append(long.Rules, Rule{Resources: []string{fmt.Sprintf("r%d", i)}})
	}
	var most Policy
	for i := range 20_000 {
		most = Strictest(most, rules(fmt.Sprintf("resources=a%d", i)))
		if n := len(most.Parts()); n > maxParts {
			t.Fatalf("%d parts", n)
		}
	}
	two := Strictest(long, rules("resources=x"))
	for _, p := range []Policy{most, two} {
		needs, err := p.Needs(Parse("GET", "/api/v1/pods", nil, false))
		if !needs || err != nil || !p.Covers(rules("resources=x")) || p.String() != "everything" ||
			p.Joined().Mode != Always {
			t.Errorf("%s: %t %v", p, needs, err)
		}
	}
	if one := Strictest(long, Policy{}); one.String() != long.String() {
		t.Errorf("one policy of %d rules becomes %s", maxRules, one)
	}
}
