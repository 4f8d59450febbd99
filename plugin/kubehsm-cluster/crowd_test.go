package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// joiners is the group of the bootstrap token of the join line that is the same for
// everybody.
const joiners = "system:bootstrappers:kubehsm:joiners"

// crowd are people with tokens, who file requests as kubehsm does, each with a
// credential of their own that the API server checks.
type crowd struct {
	l      *lab
	admin  *http.Client
	bearer *http.Client
	join   string // the join line's bootstrap token
	forger *vcard.CA

	backlog bool // the crowd files while no approver runs
	mu      sync.Mutex
	used    []*person // people whose tickets were used
}

func newCrowd(l *lab) *crowd {
	l.t.Helper()
	forger, err := vcard.NewCA("the maker") // by name
	if err != nil {
		l.t.Fatal(err)
	}
	c := &crowd{l: l, forger: forger, bearer: c0(l, nil)}
	key := newKey(l.t)
	der, err := l.c.SignClient(key.Public(), "crowd-admin", []string{"system:masters"}, time.Now().Add(-time.Minute),
		time.Now().Add(24*time.Hour))
	if err != nil {
		l.t.Fatal(err)
	}
	c.admin = c0(l, &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	l.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: requesters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "kubehsm:ticket"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: dev}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "` + joiners + `"}
`)
	c.join = c.token([]string{joiners})
	return c
}

// c0 is a client of the API server with this certificate.
func c0(l *lab, cert *tls.Certificate) *http.Client {
	ca, err := os.ReadFile(l.c.CAFile())
	if err != nil {
		l.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// post creates an object, and reads what the API server made of it. A bootstrap token
// is known there a moment after it was made.
func (c *crowd) post(client *http.Client, bearer, path string, object, to any) (err error) {
	poll.Within(poll.Patience, func() bool {
		err = c.postOnce(client, bearer, path, object, to)
		return bearer == "" || !errors.Is(err, errUnauthorized)
	})
	return err
}

var errUnauthorized = errors.New("not signed in")

func (c *crowd) postOnce(client *http.Client, bearer, path string, object, to any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.l.c.Server()+path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s: %w", path, errUnauthorized)
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, answer)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(answer, to)
}

// token makes a bootstrap token of these groups, as the help desk does.
func (c *crowd) token(groups []string) string {
	c.l.t.Helper()
	t, err := bootstraptoken.Generate()
	if err != nil {
		c.l.t.Fatal(err)
	}
	text := t.Reveal()
	id, secret, _ := strings.Cut(text, ".")
	err = c.post(c.admin, "", "/api/v1/namespaces/kube-system/secrets", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": strings.Join(groups, ","),
			"expiration":        time.Now().Add(20 * time.Hour).UTC().Format(time.RFC3339)},
	}, nil)
	if err != nil {
		c.l.t.Fatal(err)
	}
	return text
}

// person is one of the crowd, with a token and a way to file a request.
type person struct {
	signer     string // "" is that of client certificates
	name, user string
	serial     uint32
	groups     []string
	key        *ecdsa.PrivateKey
	attested   crypto.PublicKey // nil for none
	maker      *vcard.CA
	lifetime   time.Duration
	bearer     string
	cert       *tls.Certificate
	note       map[string]string
	request    []byte // the PKCS#10, if it is another's
}

func (c *crowd) person(n int, name string) *person {
	p := &person{name: name, user: fmt.Sprintf("user-%d", n), serial: uint32(1000000 + n), groups: []string{"dev"},
		key: newKey(c.l.t), maker: c.l.maker, lifetime: 24 * time.Hour}
	p.attested = p.key.Public()
	return p
}

// onRoster puts the person's token on the roster.
func (c *crowd) onRoster(p *person) *person {
	c.l.t.Helper()
	err := c.post(c.admin, "", "/apis/kubehsm.github.io/v1alpha1/namespaces/kubehsm-system/hardwaretokens",
		&clusterapi.HardwareToken{TypeMeta: metav1.TypeMeta{APIVersion: "kubehsm.github.io/v1alpha1", Kind: "HardwareToken"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(p.serial)},
			Spec:       clusterapi.TokenSpec{Owner: p.user, Groups: p.groups, State: clusterapi.HandedOut}}, nil)
	if err != nil {
		c.l.t.Fatal(err)
	}
	p.bearer = c.join
	return p
}

// withTicket gives the person a ticket for the token.
func (c *crowd) withTicket(p *person) *person {
	terms := ticket.Terms{User: p.user, Groups: p.groups, Lifetime: p.lifetime, Serial: fmt.Sprint(p.serial)}
	p.bearer = c.token(terms.TokenGroups())
	return p
}

// withCertificate has the person sign in with a certificate of the key, and renew it.
func (c *crowd) withCertificate(p *person) *person {
	c.l.t.Helper()
	der, err := c.l.c.SignClient(p.key.Public(), p.user, p.groups, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		c.l.t.Fatal(err)
	}
	p.bearer, p.cert = "", &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.key}
	p.note = map[string]string{clusterapi.PresentCertificate: base64.StdEncoding.EncodeToString(der)}
	return p
}

// pkcs10 is what the person asks for.
func (c *crowd) pkcs10(p *person) []byte {
	c.l.t.Helper()
	if p.request != nil {
		return p.request
	}
	var o csr.RequestOptions
	if p.attested != nil {
		d, err := p.maker.NewDevice(p.serial)
		if err != nil {
			c.l.t.Fatal(err)
		}
		a, err := d.Attest(p.attested, hsm.PINOnce, hsm.TouchCached)
		if err != nil {
			c.l.t.Fatal(err)
		}
		o.ExtraExtensions = attest.Extensions(a)
	}
	request, err := csr.NewRequest(p.key, csr.Subject{User: p.user, Groups: p.groups}, o)
	if err != nil {
		c.l.t.Fatal(err)
	}
	return request
}

// file files the person's request.
func (c *crowd) file(p *person) error {
	seconds := int32(p.lifetime / time.Second)
	client := c.bearer
	if p.cert != nil {
		client = c0(c.l, p.cert)
		defer client.CloseIdleConnections()
	}
	return c.post(client, p.bearer, "/apis/certificates.k8s.io/v1/certificatesigningrequests",
		&certificatesv1.CertificateSigningRequest{
			TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
			ObjectMeta: metav1.ObjectMeta{Name: p.name, Annotations: p.note},
			Spec: certificatesv1.CertificateSigningRequestSpec{Request: c.pkcs10(p), SignerName: cmp.Or(p.signer, csr.ClientSigner),
				ExpirationSeconds: &seconds, Usages: csr.ClientUsages(p.key.Public())},
		}, nil)
}

// right is the n-th person who asks for what they may have.
func (c *crowd) right(n int) *person {
	p := c.person(n, fmt.Sprintf("right-%05d", n))
	switch n % 3 {
	case 0:
		return c.withTicket(p)
	case 1:
		return c.withCertificate(c.onRoster(p))
	default:
		return c.onRoster(p)
	}
}

// forged is the n-th who asks for what they may not have, in one of these ways.
func (c *crowd) forged(n int) *person {
	p := c.person(n, "")
	way := []string{"subject", "groups", "key", "attestation", "ticket", "lifetime", "replay", "renewal"}[n/20%8]
	p.name = fmt.Sprintf("forged-%s-%05d", way, n)
	switch way {
	case "subject": // the roster has the token as another's
		c.onRoster(p).user = "root"
	case "groups":
		c.withCertificate(c.onRoster(p)).groups = []string{"dev", "ops"}
	case "key": // a key outside of the token, with the statement for another
		c.withTicket(p).attested = newKey(c.l.t).Public()
	case "attestation":
		c.withTicket(p).maker = c.forger
	case "ticket": // a stolen one, used with the thief's token
		c.withTicket(p).serial = 666
	case "lifetime":
		c.withTicket(p).lifetime = 365 * 24 * time.Hour
	case "replay": // a second request with a ticket that was used
		first := c.ticketUser(n)
		p.user, p.serial, p.bearer = first.user, first.serial, first.bearer
	case "renewal": // with the certificate of another, which is public
		other := c.withCertificate(c.person(n+1000000, ""))
		c.withCertificate(p).note = other.note
		p.attested = nil
	}
	return p
}

// ticketUser is somebody whose ticket was used: the n-th person, or one of those before in a backlog.
func (c *crowd) ticketUser(n int) *person {
	c.l.t.Helper()
	if c.backlog {
		return c.used[n%len(c.used)]
	}
	p := c.withTicket(c.person(n, fmt.Sprintf("right-replayed-%05d", n)))
	if err := c.file(p); err != nil {
		c.l.t.Fatal(err)
	}
	poll.Until(c.l.t, "the first is decided on", func() bool {
		return c.l.kubectl("get", "csr", p.name, "-ojsonpath={.status.conditions}") != ""
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = append(c.used, p)
	return p
}

// outcome is what became of requests, as etcd has it.
type outcome struct {
	approved, denied, pending, issued byName
}

// byName are requests by their names.
type byName map[string]*certificatesv1.CertificateSigningRequest
