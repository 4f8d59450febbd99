package contexts

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// world has the enrollment prod-hsm, with its context as the current one.
func world(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Enroll("prod-hsm", "jane", "dev")
	must.OK(t, set(t.Context(), w.Env))
	return w
}

// apply makes a change that was planned.
func apply(ctx context.Context, change *Change, err error) error {
	if err == nil {
		err = change.Apply(ctx)
	}
	return err
}

func names(t testing.TB, w *flowtest.World) string {
	t.Helper()
	all, err := New(w.Env).List(t.Context())
	must.OK(t, err)
	var out []string
	for _, v := range all {
		out = append(out, v.Name+map[bool]string{true: "*"}[v.Current])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestChanges: planning a change leaves the kubeconfig as it is. The change is made wholly,
// and undo takes it back. After ctrl-c nothing is changed.
func TestChanges(t *testing.T) {
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		plan func(context.Context, Contexts) (*Change, error)
		want string
	}{
		"use":    {func(ctx context.Context, k Contexts) (*Change, error) { return k.Use(ctx, "open") }, "Prod/EU west open* prod-hsm"},
		"remove": {func(ctx context.Context, k Contexts) (*Change, error) { return k.Remove(ctx, "prod-hsm") }, "Prod/EU west open"},
		"drop":   {func(ctx context.Context, k Contexts) (*Change, error) { return k.Drop(ctx, "open") }, "Prod/EU west prod-hsm*"},
		"signer": {func(ctx context.Context, k Contexts) (*Change, error) {
			return k.SetSigner(ctx, "prod-hsm", false, true)
		}, "Prod/EU west open prod-hsm*"},
	} {
		w := world(t)
		k, before := New(w.Env), w.State()
		change, err := c.plan(t.Context(), k)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if change.Empty() || change.Diff() == "" || !slices.Equal(change.Files(), []string{w.Env.Kubeconfig}) ||
			name == "signer" && len(change.Notes()) == 0 {
			t.Errorf("%s: %v, %q, notes %q\n%s", name, change.Empty(), change.Files(), change.Notes(), change.Diff())
		}
		if _, err := c.plan(cancelled, k); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s, planned with ctrl-c: %v", name, err)
		}
		if err := change.Apply(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, ctrl-c: %v", name, err)
		}
		w.Unchanged(before)
		if err := change.Apply(t.Context()); err != nil || names(t, w) != c.want {
			t.Errorf("%s: %s, %v", name, names(t, w), err)
		}
		undo, err := k.Undo(t.Context())
		if err := apply(t.Context(), undo, err); err != nil || w.State()["kubeconfig"] != before["kubeconfig"] {
			t.Errorf("%s, taken back: %v\n%s", name, err, w.State()["kubeconfig"])
		}
	}
}

// TestNoSuchContext: the error names what is not there, and nothing is changed.
func TestNoSuchContext(t *testing.T) {
	w := world(t)
	k, ctx, before := New(w.Env), t.Context(), w.State()
	for name, c := range map[string]struct {
		do   func() error
		want error
		hint string
	}{
		"use":      {func() error { _, err := k.Use(ctx, "none"); return err }, kubeconfig.ErrNoContext, ""},
		"drop":     {func() error { _, err := k.Drop(ctx, "none"); return err }, kubeconfig.ErrNoContext, ""},
		"set":      {func() error { _, err := k.Set(ctx, "none", false, false); return err }, enrollment.ErrUnknown, "kubehsm enroll"},
		"signer":   {func() error { _, err := k.SetSigner(ctx, "none", false, false); return err }, enrollment.ErrUnknown, "kubehsm enroll"},
		"foreign":  {func() error { _, err := k.Remove(ctx, "open"); return err }, nil, ""},
		"refresh":  {func() error { _, err := k.Refresh(ctx, "none"); return err }, enrollment.ErrUnknown, ""},
		"move":     {func() error { _, err := k.MoveServer(ctx, "none", "https://x"); return err }, enrollment.ErrUnknown, ""},
		"no URL":   {func() error { _, err := k.MoveServer(ctx, "prod-hsm", "x"); return err }, enrollment.ErrInvalid, ""},
		"odd URL":  {func() error { _, err := k.MoveServer(ctx, "prod-hsm", "https://prüd"); return err }, ErrUnproven, ""},
		"migrate":  {func() error { _, err := k.Migration(ctx, "none"); return err }, kubeconfig.ErrNoContext, ""},
		"unenroll": {func() error { _, err := k.Unenrollment(ctx, "none", nil); return err }, enrollment.ErrUnknown, ""},
	} {
		if err := c.do(); err == nil || c.want != nil && !errors.Is(err, c.want) ||
			!strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
}

// TestUnenrollSteps: where the removal of an enrollment fails half-way, it works the second
// time.
func TestUnenrollSteps(t *testing.T) {
	for name, spoil := range map[string]func(*flowtest.World) (restore func() error){
		"ctrl-c":                 nil,
		"the agent does not end": func(w *flowtest.World) func() error { return w.Stuck() },
	} {
		w := world(t)
		k := New(w.Env)
		ctx, stop := context.WithCancel(t.Context())
		restore := func() error { return nil }
		if spoil == nil {
			stop()
		} else {
			restore = spoil(w)
		}
		seen, err := k.Unenrollment(t.Context(), "prod-hsm", nil)
		must.OK(t, err)
		if err := k.Unenroll(ctx, seen, nil); err == nil || spoil == nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		stop()
		must.OK(t, restore())
		if seen, err = k.Unenrollment(t.Context(), "prod-hsm", nil); err == nil {
			err = k.Unenroll(t.Context(), seen, nil)
		}
		if err != nil && !errors.Is(err, enrollment.ErrUnknown) || names(t, w) != "Prod/EU west open" {
			t.Errorf("%s, once more: %v, %s", name, err, names(t, w))
		}
	}
}

// TestSameKey: other enrollments with the key are named, since they stay.
func TestSameKey(t *testing.T) {
	w := world(t)
	en, err := w.Env.Enrollments().Load("prod-hsm")
	if err == nil {
		en.Name = "twin"
		err = w.Env.Enrollments().Save(en)
	}
	must.OK(t, err)
	if u, err := New(w.Env).Unenrollment(t.Context(), "prod-hsm", nil); err != nil ||
		!slices.Equal(u.SameKey, []string{"twin"}) {
		t.Errorf("%+v, %v", u.SameKey, err)
	}
}

// TestKeptCurrent: a spare does not take the current context from the same user's other
// key, as long as that is good.
func TestKeptCurrent(t *testing.T) {
	w := world(t)
	spare, err := w.Env.Enrollments().Load("prod-hsm")
	must.OK(t, err)
	spare.Name = "spare"
	joe, elsewhere := spare, spare
	joe.User, elsewhere.Cluster.Server = "joe", "https://10.0.0.9:6443"
	k := New(w.Env)
	for en, kept := range map[*enrollment.Enrollment]string{&spare: "prod-hsm", &joe: "", &elsewhere: ""} {
		if got := k.KeptCurrent(t.Context(), *en); got != kept {
			t.Errorf("%s of %s at %s: %q", en.Name, en.User, en.Cluster.Server, got)
		}
	}
	if note := KeptNote("prod-hsm", "spare"); !strings.Contains(note, "`kubehsm kubeconfig use spare`") {
		t.Error(note)
	}
	other, err := k.Use(t.Context(), "open")
	if err := apply(t.Context(), other, err); err != nil || k.KeptCurrent(t.Context(), spare) != "" {
		t.Errorf("where the current one is another's: %v", err)
	}
}

// TestRefreshed: a cluster that describes itself as before changes nothing. A change that
// is not proven is refused, unless the user accepts it; then the enrollment follows.
func TestRefreshed(t *testing.T) {
	flowtest.UseCase{Name: "refresh", World: func(t testing.TB) *flowtest.World {
		w := world(t)
		says(w, w.Server.URL)
		return w
	},
		Passes: []string{"500", "cut"}, // the cluster is asked once more
		Skips:  []string{"gone"},       // see TestRefreshGone
		Says:   map[string]error{"forbidden": errAny},
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			r, err := New(w.Env).Refresh(ctx, "prod-hsm")
			if err != nil {
				return saidHow(ctx, err)
			}
			if r.Changed() || r.Apply(ctx, false, nil) != nil {
				return fmt.Errorf("%+v", r)
			}
			return nil
		}}.Try(t)
	w := world(t)
	const moved = "https://127.0.0.1:1"
	says(w, moved)
	r, err := New(w.Env).Refresh(t.Context(), "prod-hsm")
	if err != nil || !r.Changed() || r.Unproven == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	before := w.State()
	if err := r.Apply(t.Context(), false, nil); !errors.Is(err, ErrUnproven) ||
		!strings.Contains(hinting.Of(err), "--accept-risk=unproven") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if err := r.Apply(cancelled, true, hsmtest.NewScript(t).Lax()); !errors.Is(err, context.Canceled) {
		t.Errorf("ctrl-c: %v", err)
	}
	w.Unchanged(before)
	if err := r.Apply(t.Context(), true, hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN()))); err != nil {
		t.Error(err)
	}
	en, err := w.Env.Enrollments().Load("prod-hsm")
	if _, unsigned := en.Version(); err != nil || unsigned != nil || en.Cluster.Server != moved ||
		!strings.Contains(w.State()["kubeconfig"], moved) {
		t.Errorf("%s, %v\n%s", en.Cluster.Server, err, w.State()["kubeconfig"])
	}
}

// replaced is a world whose enrollment knows a former authority only, and the present authorities.
func replaced(t *testing.T) (w *flowtest.World, now []byte) {
	w = world(t)
	says(w, w.Server.URL)
	en, err := w.Env.Enrollments().Load("prod-hsm")
	must.OK(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	former := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "former"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, former, former, key.Public(), key)
	must.OK(t, err)
	now, en.Cluster.CAData = en.Cluster.CAData, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must.OK(t, w.Env.Enrollments().Save(en))
	return w, now
}

// trusts checks that the enrollment trusts these authorities, and that the cluster has nothing new then.
func trusts(t *testing.T, w *flowtest.World, now []byte) {
	t.Helper()
	if en, err := w.Env.Enrollments().Load("prod-hsm"); err != nil || string(en.Cluster.CAData) != string(now) {
		t.Errorf("%s, %v", en.Cluster.CAData, err)
	}
	if r, err := New(w.Env).Refresh(t.Context(), "prod-hsm"); err != nil || r.Changed() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRefreshedFromFile: who no longer trusts the cluster takes the new authority from a discovery file. The server must
// have a certificate of that authority.
func TestRefreshedFromFile(t *testing.T) {
	ctx := t.Context()
	w, now := replaced(t)
	if _, err := New(w.Env).Refresh(ctx, "prod-hsm"); !strings.Contains(hinting.Of(err), "refresh prod-hsm --discovery-file FILE") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
	for _, c := range []struct {
		server string
		proven bool
	}{{"https://127.0.0.1:1", false}, {w.Server.URL, true}} {
		file := filepath.Join(t.TempDir(), "cluster.conf")
		text := "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"" + c.server +
			"\", certificate-authority-data: " + base64.StdEncoding.EncodeToString(now) + "}\n"
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		r, err := New(w.Env).RefreshFrom(ctx, "prod-hsm", discovery.Options{File: file})
		if err != nil || !r.Changed() || (r.Unproven == "") != c.proven {
			t.Fatalf("%s: %+v, %v", c.server, r, err)
		}
		if err := r.Apply(ctx, false, hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN())).Lax()); errors.Is(err, ErrUnproven) == c.proven {
			t.Errorf("%s: %v", c.server, err)
		}
	}
	trusts(t, w, now)
}

// TestRefreshedByPin: the hash of the new authority's key is enough, at another address too. A wrong hash changes
// nothing, nor does an address where nobody answers.
func TestRefreshedByPin(t *testing.T) {
	ctx := t.Context()
	w, now := replaced(t)
	right, err := discovery.PinsOf(now)
	must.OK(t, err)
	before, patience := w.State(), w.Env.RequestTimeout
	for _, c := range []struct {
		server string
		pins   []discovery.Pin
		want   error
		hint   string
	}{
		{"", []discovery.Pin{{1}}, discovery.ErrNotPinned, "compare the hash"},
		{"https://127.0.0.1:1", right, discovery.ErrUnreachable, ""},
		{"http://127.0.0.1:1", right, discovery.ErrDocument, "is at http://127.0.0.1:1"},
	} {
		w.Env.RequestTimeout = patience
		if c.want == discovery.ErrUnreachable {
			w.Env.RequestTimeout = 100 * time.Millisecond
		}
		if r, err := New(w.Env).RefreshFrom(ctx, "prod-hsm", discovery.Options{Endpoint: c.server, Pins: c.pins}); !errors.Is(err, c.want) ||
			!strings.Contains(hinting.Of(err), c.hint) || hinting.Of(err) == "" {
			t.Errorf("%s: %+v, %v, hint %q", c.server, r, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
	moved := strings.Replace(w.Server.URL, "127.0.0.1", "localhost", 1)
	if r, err := New(w.Env).RefreshFrom(ctx, "prod-hsm", discovery.Options{Endpoint: moved, Pins: right}); err == nil {
		t.Errorf("a server with a certificate for other names: %+v", r)
	}
	r, err := New(w.Env).RefreshFrom(ctx, "prod-hsm",
		discovery.Options{Endpoint: w.Server.URL, Pins: append(right, discovery.Pin{1})})
	if err != nil || !r.Changed() || r.Unproven != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.Apply(ctx, false, hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN()))); err != nil {
		t.Error(err)
	}
	trusts(t, w, now)
}

// errAny stands for an error that says what to do.
var errAny = errors.New("with a hint")

func saidHow(ctx context.Context, err error) error {
	if ctx.Err() == nil && strings.Contains(hinting.Of(err), "kubeconfig refresh prod-hsm --server URL") {
		return fmt.Errorf("%w: %w", errAny, hinting.With(err, hinting.Of(err)))
	}
	return err
}

// says makes the cluster publish that it is at server.
func says(w *flowtest.World, server string) {
	w.Env.RequestTimeout = 3 * time.Second // the look is repeated until then, once even on a busy machine
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Server.Certificate().Raw})
	config := "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"" + server +
		"\", certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "}\n"
	w.Server.Put("/api/v1/namespaces/kube-public/configmaps", flowtest.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": flowtest.Object{"name": "cluster-info"}, "data": flowtest.Object{"kubeconfig": config}})
}

// TestMigrationOfKeys: user and groups are read from the certificate in the kubeconfig or in
// a file, and no cluster is asked. A remark says what cannot be read.
func TestMigrationOfKeys(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	w := world(t)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	en, err := w.Env.Enrollments().Load("prod-hsm")
	must.OK(t, err)
	chain, err := w.Env.Enrollments().Certificate(en)
	must.OK(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw})
	dir := filepath.Dir(w.Env.Kubeconfig)
	for name, b := range map[string][]byte{"key.pem": private, "cert.pem": cert, "odd.pem": private,
		"none.pem": []byte("x")} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	for name, c := range map[string]struct {
		user  string
		words string
		file  bool
	}{
		"data":        {user: "{client-certificate-data: " + text(cert) + ", client-key-data: " + text(private) + "}"},
		"files":       {user: "{client-certificate: cert.pem, client-key: key.pem}", file: true},
		"missing":     {user: "{client-certificate: gone.pem, client-key: key.pem}", words: "gone.pem", file: true},
		"another PEM": {user: "{client-certificate: odd.pem, client-key: key.pem}", words: "x509", file: true},
		"no PEM":      {user: "{client-certificate: none.pem, client-key: key.pem}", words: "no PEM in it", file: true},
	} {
		config := strings.Replace(flowtest.Kubeconfig, "{token: secret}", c.user, 1)
		must.OK(t, os.WriteFile(w.Env.Kubeconfig, []byte(config), 0o600))
		m, err := New(w.Env).Migration(t.Context(), "")
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (m.Subject.User != "jane" || !slices.Equal(m.Subject.Groups, []string{"dev"})) ||
			(m.KeyFile != "") != c.file {
			t.Errorf("%s: %+v", name, m)
		}
		if remarks := strings.Join(m.Remarks(), "\n"); !strings.HasPrefix(remarks, "the old key was in a file") ||
			strings.Contains(remarks, "key.pem: delete that file") != c.file {
			t.Errorf("%s: %q", name, remarks)
		}
	}
	if asked := w.Server.Asked(); len(asked) > 0 {
		t.Errorf("the cluster was asked for %q", asked)
	}
}

// TestUnverifiedStays: an enrollment that does not verify its server cannot follow a move.
func TestUnverifiedStays(t *testing.T) {
	w := world(t)
	en, err := w.Env.Enrollments().Load("prod-hsm")
	must.OK(t, err)
	en.Cluster.CAData, en.Cluster.InsecureSkipTLSVerify = nil, true
	must.OK(t, w.Env.Enrollments().Save(en))
	_, refresh := New(w.Env).Refresh(t.Context(), "prod-hsm")
	_, move := New(w.Env).MoveServer(t.Context(), "prod-hsm", "https://10.0.0.9:6443")
	for _, err := range []error{refresh, move} {
		if !errors.Is(err, ErrUnproven) || !strings.Contains(hinting.Of(err), "kubehsm enroll --restart --name prod-hsm") {
			t.Errorf("%v, hint %q", err, hinting.Of(err))
		}
	}
	if at, err := (cluster.Access{Env: w.Env}).Endpoint(t.Context(), "prod-hsm"); err != nil ||
		!at.Cluster.InsecureSkipTLSVerify {
		t.Errorf("%+v, %v", at, err)
	}
}

// TestBridgeAddress: our contexts lead to the bridge's address, and tell the API server's.
func TestBridgeAddress(t *testing.T) {
	w := world(t)
	all, err := New(w.Env).List(t.Context())
	i := slices.IndexFunc(all, func(v View) bool { return v.Name == "prod-hsm" })
	if err != nil || i < 0 || !all[i].Ours || !all[i].Current || all[i].APIServer != w.Server.URL {
		t.Errorf("%+v, %v", all, err)
	}
	ep, err := w.Env.Bridge()
	if err != nil || !strings.Contains(w.State()["kubeconfig"], "https://"+ep.Address()+"/c/prod-hsm") {
		t.Errorf("%s, %v", ep.Address(), err)
	}
}
