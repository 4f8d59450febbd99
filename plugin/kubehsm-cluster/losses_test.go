package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// enrolled brings a person with a token of the roster in, and returns what they sign in with.
func (c *crowd) enrolled(p *person) (holder, string) {
	c.l.t.Helper()
	if err := c.file(p); err != nil {
		c.l.t.Fatal(err)
	}
	var chain string
	poll.Until(c.l.t, p.name+" has a certificate", func() bool {
		obj := c.l.stored().issued[p.name]
		if obj != nil {
			chain = string(obj.Status.Certificate)
		}
		return obj != nil
	})
	key, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		c.l.t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: c.l.c.Server(), CertificateAuthority: c.l.c.CAFile()}
	config.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: []byte(chain),
		ClientKeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}
	config.Contexts["x"], config.CurrentContext = &api.Context{Cluster: "c", AuthInfo: "u"}, "x"
	file := filepath.Join(c.l.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.l.t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(chain))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.l.t.Fatal(err)
	}
	entry := revocation.EntryOf(cert)
	poll.Until(c.l.t, "the roster has it", func() bool {
		return slices.ContainsFunc(c.l.token(p).Status.Live(time.Now()), func(o clusterapi.TokenCertificate) bool {
			return o.Certificate == entry.Certificate && o.Key == entry.Key && o.NotAfter.Time.Equal(entry.NotAfter)
		})
	})
	rest, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		c.l.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		c.l.t.Fatal(err)
	}
	return holder{entry, client}, file
}

func (l *lab) token(p *person) (t clusterapi.HardwareToken) {
	l.t.Helper()
	l.read(&t, "hardwaretoken", fmt.Sprint(p.serial))
	return t
}

// read reads an object of our namespace. It leaves o alone if there is none.
func (l *lab) read(o any, kind, name string) {
	l.t.Helper()
	out := l.kubectl("-n", clusterapi.Namespace, "get", kind, name, "-ojson", "--ignore-not-found")
	if out == "" {
		return
	}
	if err := json.Unmarshal([]byte(out), o); err != nil {
		l.t.Fatal(err)
	}
}

// report is one of the token of p, by a user with a certificate.
func report(by string, of holder, p *person) clusterapi.LossReport {
	return clusterapi.LossReport{TypeMeta: metav1.TypeMeta{APIVersion: clusterapi.GroupVersion.String(), Kind: "LossReport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: of.entry.Certificate},
		Spec:       clusterapi.LossSpec{Token: fmt.Sprint(p.serial), By: by, Note: "left on a train"}}
}

func (l *lab) answer(of holder) metav1.Condition {
	l.t.Helper()
	var r clusterapi.LossReport
	l.read(&r, "lossreport", of.entry.Certificate)
	if c := meta.FindStatusCondition(r.Status.Conditions, clusterapi.InForce); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// writers are dev, who may write ConfigMaps in the namespace default. With the role edit an admin would approve them.
const writers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writers, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: dev}, {apiGroup: rbac.authorization.k8s.io, kind: Group, name: everybody}]
`

// TestLosses: the owner of two tokens loses one, and reports it with the other, without any right of the help
// desk's. The lost token's certificate writes nothing more, its key gets no other one, and the other token goes on.
// Nobody else can report it, take the owner's place, or say that it is found.
func TestLosses(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.apply(writers)
	l.start()
	c := newCrowd(l)
	lost, spare := c.person(1, "lost"), c.person(2, "spare")
	spare.user = lost.user
	gone, _ := c.enrolled(c.onRoster(lost))
	shorter, longer := *lost, *lost // further certificates of the same key
	shorter.name, shorter.lifetime, longer.name, longer.lifetime = "shorter", 12*time.Hour, "longer", 48*time.Hour
	earlier, _ := c.enrolled(&shorter)
	last, _ := c.enrolled(&longer)
	left, owner := c.enrolled(c.onRoster(spare))
	other, stranger := c.enrolled(c.onRoster(c.person(3, "stranger")))
	poll.Until(t, "reports are counted", func() bool {
		return strings.Contains(l.kubectl("-n", clusterapi.Namespace, "get", "resourcequota", "kubehsm-lossreports",
			"-ojsonpath={.status.used}"), "lossreports")
	})

	service := l.kubectl("-n", clusterapi.Namespace, "create", "token", clusterapi.Joiner)
	for name, x := range map[string]struct {
		report     clusterapi.LossReport
		kubeconfig string
		flags      []string
		says       string
	}{
		"in the owner's name":         {report(lost.user, other, lost), stranger, nil, "in their own name"},
		"in the place of the owner's": {report("user-3", left, lost), stranger, nil, "named by the SHA-256"},
		"by who impersonates":         {report(lost.user, left, lost), l.c.AdminKubeconfig(), []string{"--as", lost.user}, "named by the SHA-256"},
		"by a service account":        {report(clusterapi.JoinerUser, left, lost), l.c.AdminKubeconfig(), []string{"--as", clusterapi.JoinerUser}, "named by the SHA-256"},
		"with a bearer token":         {report(clusterapi.JoinerUser, left, lost), "/dev/null", []string{"--server", l.c.Server(), "--certificate-authority", l.c.CAFile(), "--token", service}, "named by the SHA-256"},
	} {
		if out, err := l.as(x.kubeconfig, x.report, append(x.flags, "create", "-f", "-")...); err == nil || !strings.Contains(out, x.says) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}

	l.quota()
	program, home := buildKubehsm(t), t.TempDir()
	say := []string{"roster", "lost", fmt.Sprint(lost.serial), "--yes", "--reason", "left on a train"}
	if out, err := l.runAs(stranger, home, program, say...); err == nil || !strings.Contains(out, "does not give you this token") ||
		l.answer(other).Reason != clusterapi.NotYours {
		t.Errorf("a stranger reports it: %v\n%s", err, out)
	}
	if got := l.token(lost); got.Spec.State != clusterapi.Active {
		t.Errorf("a stranger's report makes it %s", got.Spec.State)
	}
	if err := gone.write(t.Context()); err != nil {
		t.Errorf("a stranger's report revokes: %v", err)
	}

	if out, err := l.runAs(owner, home, program, append(say, "--dry-run")...); err != nil || l.answer(left).Reason != "" ||
		l.token(lost).Spec.State != clusterapi.Active {
		t.Errorf("a dry run: %v\n%s", err, out)
	}
	for range 2 { // the second finds it done
		if out, err := l.runAs(owner, home, program, say...); err != nil || !strings.Contains(out, "is lost. Revoked: 3 certificates, ") {
			t.Fatalf("the owner reports it: %v\n%s", err, out)
		}
	}
	mine := report(lost.user, left, lost)
	if got := l.token(lost); got.Spec.State != clusterapi.Lost || got.Spec.Owner != lost.user {
		t.Errorf("the roster has %+v", got.Spec)
	}
	for _, h := range []holder{gone, earlier, last} {
		if err := h.write(t.Context()); !revocation.IsRefusal(err) || !strings.Contains(err.Error(), "by "+lost.user+": left on a train") {
			t.Errorf("the lost token writes: %v", err)
		}
	}
	var told clusterapi.LossReport
	if l.read(&told, "lossreport", left.entry.Certificate); !told.Status.Until.Equal(&metav1.Time{Time: last.entry.NotAfter}) {
		t.Errorf("they read until %v, not %v", told.Status.Until, last.entry.NotAfter)
	}
	if all := l.kubectl("-n", clusterapi.Namespace, "get", "revocations", "-o", "name"); strings.Count(all, "\n") != 1 {
		t.Errorf("the Revocations are %s", all)
	}
	if err := left.write(t.Context()); err != nil {
		t.Errorf("the other token: %v", err)
	}
	renewal := c.withCertificate(c.person(1, "renewal")) // with a certificate that the roster does not know
	renewal.key, renewal.attested = lost.key, lost.attested
	renewal = c.withCertificate(renewal)
	again := c.person(1, "again") // with the join line, and another key of the token's
	again.bearer = c.join
	other2 := c.person(2, "goes-on")
	other2.user, other2.key, other2.attested = lost.user, spare.key, spare.attested
	for _, p := range []*person{renewal, again, c.withCertificate(other2)} {
		if err := c.file(p); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the other token renews", func() bool { return l.stored().issued["goes-on"] != nil })
	for name, reasons := range map[string][]string{"renewal": {judge.ReasonToken, judge.ReasonRevoked}, "again": {judge.ReasonToken}} {
		poll.Until(t, name+" is denied", func() bool { return l.stored().denied[name] != nil })
		if got := condition(l.stored().denied[name]); !strings.Contains(strings.Join(reasons, " "), got.Reason) {
			t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
		}
	}

	for _, args := range [][]string{{"create", "-f", "-"}, {"replace", "-f", "-"}, {"delete", "-f", "-"},
		{"get", "lossreports", "-n", clusterapi.Namespace},
		{"patch", "hardwaretoken", mine.Spec.Token, "-n", clusterapi.Namespace, "--type=merge", "-p", `{"spec":{"state":"Active"}}`}} {
		out, err := l.as(owner, mine, args...)
		if err == nil || !strings.Contains(out, "Forbidden") && !strings.Contains(out, "AlreadyExists") {
			t.Errorf("the owner may %s: %s", args[0], out)
		}
	}
	if out, err := l.as(l.c.AdminKubeconfig(), mine, "patch", "-f", "-", "--type=merge", "-p", `{"spec":{"token":"7"}}`); err == nil ||
		!strings.Contains(out, "never changed") {
		t.Errorf("an admin may change it: %s", out)
	}
}
