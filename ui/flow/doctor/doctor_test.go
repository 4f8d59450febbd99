package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// machine is a person's machine with a token in it.
type machine struct {
	*Options
	t    *testing.T
	fake *hsmtest.Fake
	home string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o700))
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	fake := hsmtest.NewFake(hsm.SchemePKCS11)
	exe, err := os.Executable()
	must.OK(t, err)
	d := home.Dirs{Home: dir, Config: dir, State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	must.OK(t, d.Prepare())
	env := &env.Env{Dirs: d, Drivers: hsm.Drivers{fake}, Executable: exe, Version: "v1"}
	o := &Options{Env: env, Getenv: os.Getenv, enrollments: env.Enrollments().List}
	return &machine{Options: o, t: t, fake: fake, home: dir}
}

func (m *machine) file(name, content string, mode os.FileMode) string {
	m.t.Helper()
	path := filepath.Join(m.home, name)
	must.OK(m.t, os.WriteFile(path, []byte(content), mode))
	must.OK(m.t, os.Chmod(path, mode))
	return path
}

// enroll puts an enrollment with a certificate into the store.
func (m *machine) enroll(name, server string, ca []byte, from, until time.Time) {
	m.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(m.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane.doe"}, NotBefore: from,
		NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(m.t, err)
	leaf, err := x509.ParseCertificate(der)
	must.OK(m.t, err)
	hash, err := hsm.Fingerprint(key.Public())
	must.OK(m.t, err)
	e := enrollment.Enrollment{Name: name, Cluster: cluster.Cluster{Server: server, CAData: ca}, User: "jane.doe",
		Groups: []string{"payroll"},
		Key:    hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue token", Serial: "5f0a17"}, KeyHash: hash, Created: from}
	store := enrollment.NewStore(m.Env.Dirs)
	must.OK(m.t, errors.Join(store.Save(e), store.SaveCertificate(e, []*x509.Certificate{leaf})))
}

// find returns the one check whose id begins with prefix.
func (m *machine) find(checks []Check, prefix string) Check {
	m.t.Helper()
	var found []Check
	for _, c := range checks {
		if strings.HasPrefix(c.ID, prefix) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		m.t.Fatalf("%d checks named %s among %+v", len(found), prefix, checks)
	}
	return found[0]
}

func (m *machine) expect(c Check, s State, found, fix string) {
	m.t.Helper()
	if c.State != s || !strings.Contains(c.Found, found) || !strings.Contains(c.Fix, fix) {
		m.t.Errorf("%s: %s, %q, fix %q; want %s, %q, fix %q", c.ID, c.State, c.Found, c.Fix, s, found, fix)
	}
	if c.State != OK && c.Why == "" {
		m.t.Errorf("%s is %s and does not say why that matters", c.ID, c.State)
	}
}

func TestTokens(t *testing.T) {
	m := newMachine(t)
	checks := tokens(context.Background(), m.Options)
	m.expect(m.find(checks, "token"), Failed, "no token", "kubehsm token wait")

	m.fake.Add(hsmtest.FakeOptions{Label: "blue", Serial: "1"})
	m.fake.Add(hsmtest.FakeOptions{Label: "new", Serial: "2", PINNotSet: true})
	m.fake.SetProblems(hsm.Problem{Source: "/lib/vendor.so",
		Err: hint.With(fmt.Errorf("vendor: %w", hsm.ErrModule), "update it")},
		hsm.Problem{Source: "Reader 1", Err: fmt.Errorf("reader: %w", hsm.ErrBusy)},
		hsm.Problem{Source: "Reader 2", Err: fmt.Errorf("reader: %w", hsm.ErrNoToken)},
		hsm.Problem{Source: "smart cards", Err: hint.With(hsm.ErrPending, "wait")})
	checks = tokens(context.Background(), m.Options)
	m.expect(m.find(checks, "token/pkcs11:token=blue"), OK, "1", "")
	m.expect(m.find(checks, "token/pkcs11:token=new"), Failed, "PIN not set",
		"kubehsm token pin unblock --token 'pkcs11:token=new")
	m.expect(m.find(checks, "source//lib/vendor.so"), Warning, "vendor", "update it") // others can be used
	m.expect(m.find(checks, "source/Reader 1"), Warning, "in use", "")
	m.expect(m.find(checks, "source/Reader 2"), Note, "no such token", "")
	m.expect(m.find(checks, "source/smart cards"), Warning, "no answer yet", "pcscd") // no enrollment waits for it
}

// yubico is a driver whose tokens say that Yubico made them.
type yubico struct{ *hsmtest.Fake }

func (y yubico) List(ctx context.Context) (hsm.Listing, error) {
	l, err := y.Fake.List(ctx)
	for i := range l.Tokens {
		l.Tokens[i].Manufacturer = "Yubico"
	}
	return l, err
}

// A card that a PKCS#11 library shows too is told of once, by the driver whose
// fixes work.
func TestTwin(t *testing.T) {
	m := newMachine(t)
	card := hsmtest.NewFake(hsm.SchemePIV)
	m.Env.Drivers = hsm.Drivers{yubico{m.fake}, card}
	card.Add(hsmtest.FakeOptions{Serial: "7", PINNotSet: true})
	m.fake.Add(hsmtest.FakeOptions{Serial: "7", PINNotSet: true})
	m.expect(m.find(tokens(t.Context(), m.Options), "token/"), Failed, "PIN not set",
		"kubehsm token pin unblock --token piv:serial=7")
	m.fake.Add(hsmtest.FakeOptions{Serial: "8"}) // another card, which only the library shows
	m.expect(m.find(tokens(t.Context(), m.Options), "token/pkcs11:"), OK, "8", "")
	m.expect(m.find(tokens(t.Context(), m.Options), "driver/pkcs11"), OK, "1 token", "")
}

// TestCountedOnce: a token that two libraries reach, by one URI, has one check and counts as one,
// and a card that a library reaches, too, is none of the library's. What is enrolled by the other
// way is not called absent.
func TestCountedOnce(t *testing.T) {
	m := newMachine(t)
	m.enroll("prod", "https://prod.example.com", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	other := hsmtest.NewFake(hsm.SchemePKCS11)
	for _, f := range []*hsmtest.Fake{m.fake, other} {
		f.Add(hsmtest.FakeOptions{Label: "blue token", Serial: "5f0a17"})
	}
	m.Env.Drivers = hsm.Drivers{m.fake, byOther{other}}
	counts := map[string]int{}
	for _, c := range tokens(t.Context(), m.Options) {
		kind, _, _ := strings.Cut(c.ID, "/")
		counts[kind]++
		if counts["driver"] == 2 && kind == "driver" {
			m.expect(c, OK, "no other token", "")
		}
	}
	if counts["token"] != 1 || counts["absent"] != 0 {
		t.Errorf("%+v", counts)
	}
}

// byOther is a driver that reaches its tokens by another library.
type byOther struct{ *hsmtest.Fake }

func (o byOther) List(ctx context.Context) (hsm.Listing, error) {
	l, err := o.Fake.List(ctx)
	for i := range l.Tokens {
		l.Tokens[i].Module = &hsm.Module{Path: "/lib/other.so"}
	}
	return l, err
}

// A token whose keys cannot be read is not said to be well.
func TestUnreadableKeys(t *testing.T) {
	m := newMachine(t)
	unread := hint.With(fmt.Errorf("vendor: %w", hsm.ErrModule), "update it")
	m.fake.Add(hsmtest.FakeOptions{Label: "other", Serial: "1"}).Fail(hsmtest.OpSlots, unread)
	m.expect(m.find(tokens(t.Context(), m.Options), "keys/pkcs11:token=other"), Warning, "vendor", "update it")
	m.enroll("prod", "https://prod.example.com", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	m.fake.Add(hsmtest.FakeOptions{Label: "blue token", Serial: "5f0a17"}).Fail(hsmtest.OpSlots, unread)
	m.expect(m.find(tokens(t.Context(), m.Options), "keys/pkcs11:token=blue"), Failed, "vendor", "update it")
}

// TestSpareIsThere: with the token of a key or of its spare, the other one is no fault, and the context is ready.
func TestSpareIsThere(t *testing.T) {
	for here, id := range map[string]string{"prod": "absent/prod-spare", "prod-spare": "spare/prod"} {
		m := newMachine(t)
		for name, serial := range map[string]string{"prod": "1", "prod-spare": "2"} {
			m.enroll(name, "https://prod.example.com", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			e, err := m.Env.Enrollments().Load(name)
			must.OK(t, err)
			e.Key.Serial = serial
			if name != "prod" {
				e.SpareOf, e.SpareOfKey = "prod", e.KeyHash
			}
			must.OK(t, m.Env.Enrollments().Save(e))
			if name == here {
				m.fake.Add(hsmtest.FakeOptions{Label: "blue token", Serial: serial})
			}
		}
		checks := tokens(t.Context(), m.Options)
		m.expect(m.find(checks, id), OK, "the token of "+here+" signs in", "")
		certificates := []Check{{ID: "certificate/prod", State: OK}, {ID: "certificate/prod-spare", State: OK}}
		if _, usable := enrollments(append(certificates, checks...)); !slices.Contains(usable, `"prod"`) {
			t.Errorf("with the token of %s, %q can sign in", here, usable)
		}
	}
}

// A token that is enrolled and not there is told, whatever else is there; a
// library that fails is only then in the way.
func TestEnrolledTokenIsAway(t *testing.T) {
	m := newMachine(t)
	m.fake.Add(hsmtest.FakeOptions{Label: "blue", Serial: "1"})
	m.enroll("prod", "https://prod.example.com", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	m.expect(m.find(tokens(t.Context(), m.Options), "absent/prod"), Warning, "serial=5f0a17",
		"token wait --token 'pkcs11:token=blue%20token;serial=5f0a17'")
	m.fake.SetProblems(hsm.Problem{Source: "/lib/vendor.so", Err: hsm.ErrModule})
	m.expect(m.find(tokens(t.Context(), m.Options), "source/"), Failed, "failed", "onlyModules")
	m.fake.SetProblems(hsm.Problem{Source: "/lib/vendor.so", Err: hsm.ErrPending})
	m.expect(m.find(tokens(t.Context(), m.Options), "source/"), Failed, "no answer yet", "")
	e, err := m.Env.Enrollments().Load("prod")
	must.OK(t, err)
	e.Key.ModulePath = "/lib/vendor.so"
	must.OK(t, m.Env.Enrollments().Save(e))
	m.expect(m.find(tokens(t.Context(), m.Options), "absent/prod"), Warning, "not seen, as its library failed", "above")
	m.fake.Add(hsmtest.FakeOptions{Label: "blue token", Serial: "5f0a17"})
	if checks := tokens(t.Context(), m.Options); slices.ContainsFunc(checks,
		func(c Check) bool { return strings.HasPrefix(c.ID, "absent/") }) {
		t.Errorf("it is there: %+v", checks)
	}
	m.expect(m.find(tokens(t.Context(), m.Options), "source/"), Warning, "no answer yet", "")
	m.fake.SetProblems(hsm.Problem{Source: "/lib/vendor.so", Err: hsm.ErrModule})
	m.expect(m.find(tokens(t.Context(), m.Options), "source/"), Warning, "failed", "onlyModules")
}

func TestFirmware(t *testing.T) {
	for firmwareVersion, want := range map[string]State{
		"4.2.5": Note, "4.2.6": Warning, "4.3.4": Warning, "4.3.5": Note, "5.4.3": Note, "5.7.0": OK, "5.10.1": OK,
	} {
		got := firmware(hsm.TokenInfo{Model: "YubiKey 5 NFC", Firmware: firmwareVersion})
		if len(got) != 1 || got[0].State != want {
			t.Errorf("%s: %+v, want %s", firmwareVersion, got, want)
		}
	}
	for _, other := range []hsm.TokenInfo{{Model: "YubiKey", Firmware: ""}, {Model: "YubiKey", Firmware: "5.7"},
		{Model: "Nitrokey 3", Firmware: "4.2.6"}} {
		if got := firmware(other); got != nil {
			t.Errorf("%+v: %+v", other, got)
		}
	}
}

// hanging never answers, whatever becomes of ctx.
type hanging struct{ hsm.Driver }

func (hanging) Scheme() string                            { return hsm.SchemePIV }
func (hanging) List(context.Context) (hsm.Listing, error) { select {} }

// A library that hangs is a finding, and hides nothing else.
func TestHangingDriver(t *testing.T) {
	m := newMachine(t)
	m.Env.Drivers = append(m.Env.Drivers, hanging{})
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	checks := Run(ctx, *m.Options, nil)
	m.expect(m.find(checks, "tokens"), Failed, "did not answer", "kubehsm token list")
	m.expect(m.find(checks, "contexts"), OK, "0 contexts", "")
}

const hostile = "it's; rm -rf ~"

func TestKubeconfig(t *testing.T) {
	m := newMachine(t)
	checks := kubeconfigs(context.Background(), m.Options)
	m.expect(m.find(checks, "file/"), Note, "not there", "")

	key := `apiVersion: v1
kind: Config
contexts: [{name: "` + hostile + `", context: {cluster: prod, user: jane}}]
clusters: [{name: prod, cluster: {server: "https://prod.example.com"}}]
users: [{name: jane, user: {client-certificate: c.pem, client-key: k.pem}}]
`
	path := m.file("kubeconfig", key, 0o622)
	checks = kubeconfigs(context.Background(), m.Options)
	m.expect(m.find(checks, "file/"), Warning, "may change it", "chmod 600 ")
	m.expect(m.find(checks, "context/"), Note, "is a file", `kubehsm kubeconfig migrate 'it'\''s; rm -rf ~'`)

	m.file("kubeconfig", key, 0o644)
	m.expect(m.find(kubeconfigs(context.Background(), m.Options), "file/"), Note, "may read it", "chmod 600")
	for _, secret := range []string{"token: abc", "client-certificate-data: YQ==, client-key-data: YQ==",
		"username: jane, password: x"} {
		m.file("kubeconfig", strings.Replace(key, "client-certificate: c.pem, client-key: k.pem", secret, 1), 0o644)
		m.expect(m.find(kubeconfigs(context.Background(), m.Options), "file/"), Warning, "may read it, and the key",
			"chmod 600")
	}
	m.file("kubeconfig", key, 0o600)
	lock := m.file("kubeconfig.lock", "", 0o600)
	m.expect(m.find(kubeconfigs(context.Background(), m.Options), "lock/"), Note, "is writing the file", "")
	old := time.Now().Add(-time.Hour)
	must.OK(t, os.Chtimes(lock, old, old))
	checks = kubeconfigs(context.Background(), m.Options)
	m.expect(m.find(checks, "lock/"), Warning, "left behind 1h", "rm ")
	m.expect(m.find(checks, "file/"), OK, "0600", "")
	if b, err := os.ReadFile(path); err != nil || string(b) != key {
		t.Errorf("the kubeconfig was changed: %v", err)
	}

	t.Setenv("KUBECONFIG", m.home) // a folder, which nobody shall chmod
	checks = kubeconfigs(context.Background(), m.Options)
	m.expect(m.find(checks, "file/"), Failed, "no regular file", "KUBECONFIG")
	m.expect(m.find(checks, "contexts"), Failed, "not a regular file", "")
	t.Setenv("KUBECONFIG", path)

	m.file("kubeconfig", "contexts: {", 0o600)
	m.expect(m.find(kubeconfigs(context.Background(), m.Options), "contexts"), Failed, "kubeconfig", "")
}

// Entries of ours are followed to what they rely on.
func TestEntries(t *testing.T) {
	m := newMachine(t)
	m.enroll("prod", "https://prod.example.com", nil, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	server, authorities := "https://127.0.0.1:1/c/prod", []byte(nil)
	entry := func(name, command string) Check {
		m.file("kubeconfig", `apiVersion: v1
kind: Config
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "`+server+`", certificate-authority-data: "`+
			base64.StdEncoding.EncodeToString(authorities)+`", extensions: [{name: client.authentication.k8s.io/exec, `+
			`extension: {apiVersion: kubehsm.io/v1, enrollment: `+name+`}}]}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: "`+command+`", args: `+
			`[credential, --enrollment, `+name+`], interactiveMode: IfAvailable}}}]
`, 0o600)
		return m.find(kubeconfigs(context.Background(), m.Options), "context/")
	}
	const again = "kubehsm kubeconfig set prod"
	m.expect(entry("prod", m.Env.Executable), Warning, "not set up on this machine", again)
	ep, err := loopback.Setup(m.Env.Dirs)
	must.OK(t, err)
	m.expect(entry("prod", m.Env.Executable), Failed, "the bridge is at", again)
	server = ep.URL("prod")
	m.expect(entry("prod", m.Env.Executable), Failed, "does not know the bridge on this computer", again)
	authorities = ep.CAPEM
	m.expect(entry("prod", m.Env.Executable), OK, "enrollment prod", "")
	m.expect(entry("other", m.Env.Executable), Failed, "no such enrollment", "")
	m.expect(entry("prod", "kubehsm"), Warning, "no full path", again)
	m.expect(entry("prod", "/nowhere/kubehsm"), Failed, "/nowhere/kubehsm", again)
}

func TestCertificates(t *testing.T) {
	m := newMachine(t)
	m.expect(m.find(clusters(context.Background(), m.Options), "enrollments"), Note, "nothing", "kubehsm enroll")
	now := time.Now()
	day := 24 * time.Hour
	m.enroll("good", "https://a.example.com", nil, now.Add(-day), now.Add(90*day))
	m.enroll("short", "https://a.example.com", nil, now.Add(-day), now.Add(4*day)) // more than a third of its life is left
	m.enroll("soon", "https://a.example.com", nil, now.Add(-80*day), now.Add(10*day))
	m.enroll("over", "https://a.example.com", nil, now.Add(-2*day), now.Add(-day))
	m.enroll("early", "https://a.example.com", nil, now.Add(day), now.Add(2*day))
	checks := clusters(context.Background(), m.Options)
	m.expect(m.find(checks, "certificate/good"), OK, "jane.doe", "")
	m.expect(m.find(checks, "certificate/short"), OK, "good until", "")
	m.expect(m.find(checks, "certificate/soon"), Warning, "expires soon", "kubehsm certificate renew soon")
	// no context was enrolled from
	m.expect(m.find(checks, "certificate/over"), Failed, "expired", "kubehsm join --name over")
	m.expect(m.find(checks, "certificate/early"), Failed, "not good before", "clock")
	if Worst(checks) != Failed {
		t.Errorf("the worst is %s", Worst(checks))
	}
}

// A cluster whose API server tells its version can revoke certificates, or cannot.
func TestRevocable(t *testing.T) {
	m := newMachine(t)
	m.Online = true
	version := ""
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(version)) }))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	m.enroll("prod", s.URL, ca, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	look := func() []Check { return clusters(context.Background(), m.Options) }
	version = `{"major":"1","minor":"37"}`
	m.expect(m.find(look(), "revocation/prod"), OK, "cannot write, but reads until it ends; `kubehsm revocation check`", "")
	version = `{"major":"1","minor":"31+"}`
	m.expect(m.find(look(), "revocation/prod"), Note, "Kubernetes 1.31", "keep lifetimes short")
	version = `{"kind":"Status"}`
	if slices.ContainsFunc(look(), func(c Check) bool { return c.ID == "revocation/prod" }) {
		t.Error("it is told of an unknown version")
	}
}

// An API server is asked without a credential; its clock and CA are judged.
func TestServer(t *testing.T) {
	m := newMachine(t)
	m.Online = true
	skew := time.Duration(0)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || len(r.TLS.PeerCertificates) > 0 || r.URL.Path != "/version" {
			t.Errorf("asked for %s with a credential", r.URL.Path)
		}
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	m.enroll("prod", s.URL, ca, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	look := func() Check { return m.find(clusters(context.Background(), m.Options), "server/prod") }
	m.expect(look(), OK, "answers", "")
	skew = 10*time.Minute + 30*time.Second
	m.expect(look(), Warning, "clock differs by 10m", "set-ntp")

	m.enroll("prod", s.URL, nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	m.expect(look(), Failed, "certificate", "CA has changed: kubehsm kubeconfig refresh prod")

	store := enrollment.NewStore(m.Env.Dirs)
	e, err := store.Load("prod")
	must.OK(t, err)
	e.Cluster.InsecureSkipTLSVerify = true
	must.OK(t, store.Save(e))
	m.expect(m.find(clusters(context.Background(), m.Options), "unverified/prod"), Warning, "not verified",
		"certificate-authority-data")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	must.OK(t, err)
	defer silent.Close()
	m.enroll("prod", "https://"+silent.Addr().String(), nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	m.expect(m.find(clusters(ctx, m.Options), "server/prod"), Failed, silent.Addr().String()+" does not answer",
		"right network")
	must.OK(t, silent.Close())
	m.expect(look(), Failed, "refused", "right network")
}

func TestFolders(t *testing.T) {
	m := newMachine(t)
	m.expect(folders(m.Env.Dirs), OK, "state", "")
	must.OK(t, os.Chmod(m.Env.Dirs.State, 0o777))
	m.expect(folders(m.Env.Dirs), Failed, "state", "")
}

// Tokens that the system keeps from this user are in the way, unlike those that
// are not there.
func TestDenied(t *testing.T) {
	m := newMachine(t)
	denied := hint.With(hsm.ErrDenied, "polkit")
	m.expect(problem(hsm.KindOf(hsm.SchemePIV), hsm.Problem{Err: denied}), Failed, "refuses this user", "polkit")
	m.Env.Drivers = hsm.Drivers{failing{err: denied}}
	m.expect(m.find(tokens(t.Context(), m.Options), "driver/piv"), Failed, "refuses this user", "polkit")
	m.Env.Drivers = hsm.Drivers{failing{err: hsm.ErrNoToken}}
	m.expect(m.find(tokens(t.Context(), m.Options), "driver/piv"), Note, "no such token", "")
}

type failing struct {
	hsm.Driver
	err error
}

func (failing) Scheme() string                              { return hsm.SchemePIV }
func (f failing) List(context.Context) (hsm.Listing, error) { return hsm.Listing{}, f.err }

// What a crashed agent left behind is no fault; what keeps one from starting is.
func TestAgentSocket(t *testing.T) {
	m := newMachine(t)
	look := func() Check { return m.find(theAgent(t.Context(), m.Options), "agent") }
	m.expect(look(), OK, "not running", "")
	path := m.Env.Dirs.Socket()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.OK(t, err)
	l.SetUnlinkOnClose(false)
	must.OK(t, l.Close())
	m.expect(look(), Note, "left behind", "")
	must.OK(t, errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)))
	m.expect(look(), Failed, "is no socket", "rm -r ")
}

func TestKubectlOnThePath(t *testing.T) {
	m := newMachine(t)
	kubectlAt := func(dir, version string) {
		must.OK(t, os.MkdirAll(filepath.Join(m.home, dir), 0o700))
		m.file(dir+"/kubectl", "#!/bin/sh\necho '"+version+"'\n", 0o700)
	}
	look := func(dirs ...string) Check {
		for i := range dirs {
			dirs[i] = filepath.Join(m.home, dirs[i])
		}
		path := strings.Join(dirs, string(os.PathListSeparator))
		m.Getenv = func(string) string { return path }
		return kubectl(context.Background(), m.Options)[0]
	}
	kubectlAt("new", `{"clientVersion":{"major":"1","minor":"37","gitVersion":"v1.37.1"}}`)
	kubectlAt("old", `{"clientVersion":{"major":"1","minor":"19+","gitVersion":"v1.19.9"}}`)
	kubectlAt("odd", "no json")
	m.expect(look("nothing"), Note, "not on the PATH", "install")
	m.expect(look("new"), OK, "v1.37.1", "")
	m.expect(look("old"), Failed, "v1.19.9", "1.20")
	m.expect(look("odd"), Warning, "no JSON", "kubectl version")
	m.expect(look("new", "old", "new"), Note, "old/kubectl behind it", "")

	// A program of the desktop has another PATH than the shell.
	bare := func(dir string) Check {
		m.barePath = filepath.Join(m.home, dir)
		look("new")
		return m.find(kubectl(context.Background(), m.Options), "kubectl-desktop")
	}
	m.expect(bare("nothing"), Note, "not in "+m.home, "ln -s "+filepath.Join(m.home, "new/kubectl"))
	m.expect(bare("new"), OK, "new/kubectl", "")
	m.expect(bare("old"), Warning, "v1.19.9", "1.20")
	m.expect(bare("odd"), Warning, "no JSON", "odd/kubectl version")
}

// What is reported on the way is what is returned.
func TestReport(t *testing.T) {
	m := newMachine(t)
	m.fake.Add(hsmtest.FakeOptions{Label: "blue"})
	var told []Check
	all := Run(context.Background(), *m.Options, func(c Check) { told = append(told, c) })
	if len(told) != len(all) {
		t.Errorf("%d told, %d returned", len(told), len(all))
	}
	for _, c := range all {
		if !slices.Contains(told, c) {
			t.Errorf("%s was not told", c.ID)
		}
		if c.ID == "" || c.Group == "" || c.Title == "" || c.Found == "" {
			t.Errorf("half a finding: %+v", c)
		}
	}
}

func TestKuberc(t *testing.T) {
	m := newMachine(t)
	m.expect(policy(t.Context(), m.Options), OK, "may run", "")
	t.Setenv("KUBERC",
		m.file("kuberc",
			"apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: aws}]\n", 0o600))
	m.expect(policy(t.Context(), m.Options), Failed, "does not allow",
		"--allowlist-entry command=aws --allowlist-entry command="+m.Env.Executable)
	m.file("kuberc", "credentialPluginPolicy: [", 0o600)
	m.expect(policy(t.Context(), m.Options), Warning, "kuberc", "correct the file")
}

// TestProblems: what is wrong comes first, the worst before all, and the rest is a number.
func TestProblems(t *testing.T) {
	problems, passed := Problems([]Check{{ID: "a", State: OK}, {ID: "b", State: Note}, {ID: "c", State: Failed},
		{ID: "d", State: OK}, {ID: "e", State: Warning}, {ID: "f", State: Failed}})
	var ids string
	for _, c := range problems {
		ids += c.ID
	}
	if ids != "cfeb" || Passed(passed) != "2 checks passed" || Passed(1) != "1 check passed" {
		t.Errorf("%s, %s", ids, Passed(passed))
	}
}

// TestInstallFix: the command is one of the system it is for, and quoted for its shell.
func TestInstallFix(t *testing.T) {
	for goos, want := range map[string]string{
		"linux":   `sudo install '/a b/k' /usr/local/bin/kubehsm`,
		"windows": `copy '/a b/k' "$env:LOCALAPPDATA\Microsoft\WindowsApps\kubehsm.exe"`,
	} {
		if got := installFix(goos, "/a b/k", "/a b/k"); got != want {
			t.Errorf("%s: %s", goos, got)
		}
	}
}
