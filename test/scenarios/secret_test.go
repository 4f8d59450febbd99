//go:build linux

package scenarios

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestPINIsNowhere runs all that needs the PIN, and looks for it in every file
// that came about, in the arguments and environment of every process meanwhile,
// and in what the API server wrote down.
func TestPINIsNowhere(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	policy := filepath.Join(filepath.Dir(audit), "policy.yaml")
	if err := os.WriteFile(policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := controlplane.StartForTest(t, controlplane.Options{APIServerFlags: []string{"--audit-policy-file=" + policy,
		"--audit-log-path=" + audit, "--v=8"}})
	u := newUser(t, lab.Options{Cluster: c})
	p := u.WatchProcesses(0, lab.PIN, wrongPIN)

	s := u.terminal(u.Binary, "enroll", "--user", "jane", "--group", lab.DevelopersGroup, "--approve-with",
		c.AdminKubeconfig(), "--yes")
	s.Answer(pinPrompt, lab.PIN)
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Screen())
	}
	u.kubectl("get", "namespaces", "-v=9")
	u.kubehsm("agent", "lock")
	s = u.terminal(c.Kubectl(), "get", "namespaces", "-v=9")
	s.Answer(pinPrompt, lab.PIN)
	s.Exit()
	u.kubehsm("agent", "stop")
	u.unlock()
	u.kubectl("get", "namespaces")
	res := u.ran(u.KubehsmPIN(t.Context(), wrongPIN, "key", "generate", "--label", "another"))
	if strings.Contains(res.Stdout+res.Stderr, wrongPIN) {
		t.Errorf("the output shows the PIN: %s", res)
	}
	agent := u.agentStatus().PID
	seen, places, err := p.Stop()
	must.OK(t, err)
	for _, place := range places {
		t.Errorf("%s holds a PIN", place)
	}
	if !seen[agent] {
		t.Error("the agent's arguments and environment were not looked at")
	}
	if len(seen) < 5 {
		t.Errorf("only %d processes were looked at", len(seen))
	}

	files := 0
	for _, root := range []string{u.Dir, c.Dir(), filepath.Dir(audit)} {
		found, n, err := lab.FilesWith(root, lab.PIN, wrongPIN)
		must.OK(t, err)
		for _, path := range found {
			t.Errorf("%s holds a PIN", path)
		}
		files += n
	}
	if files < 30 {
		t.Errorf("only %d files were looked at", files)
	}
	b, err := os.ReadFile(audit)
	if err != nil || !bytes.Contains(b, []byte("certificatesigningrequests")) {
		t.Errorf("the audit log tells nothing: %v", err)
	}
}

// TestStartedToTalk: whoever starts the agent has neither Go's runtime nor a library write down what the agent carries.
func TestStartedToTalk(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	keys := filepath.Join(u.Dir, "keys")
	talk := lab.Run{PIN: lab.PIN, Env: []string{"GODEBUG=http2debug=2", "GOTRACEBACK=crash", "SSLKEYLOGFILE=" + keys}}
	u.ok(u.Run(t.Context(), talk, u.Binary, "unlock", enrolled, "--pin-fd", "3"))
	u.kubectl("get", "namespaces")
	u.kubehsm("agent", "stop")
	found, n, err := lab.FilesWith(u.Home, "http2: ")
	must.OK(t, err)
	if _, err := os.Stat(keys); len(found) > 0 || n < 5 || !os.IsNotExist(err) {
		t.Errorf("%v of %d files, %v", found, n, err)
	}
}

// TestPrivateKeyStaysInTheToken tries to read the private key through PKCS#11,
// logged in as its owner.
func TestPrivateKeyStaysInTheToken(t *testing.T) {
	u := newUser(t, lab.Options{})
	u.enroll()
	t.Setenv("SOFTHSM2_CONF", u.Soft.Conf) // for the library in this process
	ctx := p11.New(u.Soft.Module)
	if ctx == nil {
		t.Fatalf("%s cannot be loaded", u.Soft.Module)
	}
	defer ctx.Destroy()
	must.OK(t, ctx.Initialize())
	defer func() { must.OK(t, ctx.Finalize()) }()
	session, key := u.privateKey(t, ctx)
	defer func() { must.OK(t, ctx.CloseSession(session)) }()

	for _, a := range []struct {
		name string
		kind uint
		want byte
	}{
		{"CKA_SENSITIVE", p11.CKA_SENSITIVE, 1}, {"CKA_EXTRACTABLE", p11.CKA_EXTRACTABLE, 0},
		{"CKA_ALWAYS_SENSITIVE", p11.CKA_ALWAYS_SENSITIVE, 1}, {"CKA_NEVER_EXTRACTABLE", p11.CKA_NEVER_EXTRACTABLE, 1},
		{"CKA_LOCAL", p11.CKA_LOCAL, 1}, {"CKA_PRIVATE", p11.CKA_PRIVATE, 1},
	} {
		got, err := ctx.GetAttributeValue(session, key, []*p11.Attribute{p11.NewAttribute(a.kind, nil)})
		must.OK(t, err)
		if len(got) != 1 || len(got[0].Value) != 1 || got[0].Value[0] != a.want {
			t.Errorf("%s is %v, want %d", a.name, got[0].Value, a.want)
		}
	}
	value, err := ctx.GetAttributeValue(session, key, []*p11.Attribute{p11.NewAttribute(p11.CKA_VALUE, nil)})
	if !errors.Is(err, p11.Error(p11.CKR_ATTRIBUTE_SENSITIVE)) {
		t.Errorf("CKA_VALUE of the private key: %v attributes, %v", len(value), err)
	}
	for _, a := range []uint{p11.CKA_EXTRACTABLE, p11.CKA_SENSITIVE} { // nor can it be made readable
		weaker := []*p11.Attribute{p11.NewAttribute(a, a == p11.CKA_EXTRACTABLE)}
		if err := ctx.SetAttributeValue(session, key, weaker); err == nil {
			t.Errorf("attribute %#x could be weakened", a)
		}
	}
	u.wrapping(t, ctx, session, key)
}

// TestCopiedHomeSignsInNowhere: somebody who has copied all that kubehsm keeps, at
// a time when kubectl is signed in, and knows the PIN, lacks the token. The only private
// key among the files is that of the bridge's CA, which can pass for the bridge.
func TestCopiedHomeSignsInNowhere(t *testing.T) {
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubectl("get", "namespaces")
	found, files, err := lab.FilesWith(u.Home, "PRIVATE KEY")
	must.OK(t, err)
	if files < 10 || len(found) != 1 || !strings.HasSuffix(found[0], "bridge/ca.pem") {
		t.Errorf("of %d files these hold a private key: %v", files, found)
	}

	thief := newUser(t, lab.Options{})
	must.OK(t, copyHome(u.Home, thief.Home))
	kubeconfig, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	must.OK(t, os.WriteFile(thief.Kubeconfig, bytes.ReplaceAll(kubeconfig, []byte(u.Dir), []byte(thief.Dir)), 0o600))
	u.kubehsm("agent", "stop") // the agent has the port that the copy names, too
	thief.wantFailure(thief.ran(thief.KubehsmPIN(t.Context(), lab.PIN, "unlock", enrolled)), 3, "", "token")
	if res := thief.ran(thief.Kubectl(t.Context(), "get", "namespaces")); res.Code == 0 {
		t.Errorf("kubectl is signed in: %s", res)
	}
	thief.kubehsm("agent", "stop")
}

// copyHome copies a home folder as a thief would, who has a token of his own.
func copyHome(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, from)
		if err != nil || name == "/config.yaml" || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(to+name, 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to+name, b, 0o600)
	})
}

// TestAdministrationLocks: whoever administers a token finds and leaves it locked.
func TestAdministrationLocks(t *testing.T) {
	u := newUser(t, lab.Options{})
	u.enroll()
	u.unlock()
	if s := u.agentStatus(); len(s.Tokens) != 1 || !s.Tokens[0].Unlocked {
		t.Fatalf("nothing is unlocked: %+v", s)
	}
	const newPIN = "24680135"
	u.secrets = append(u.secrets, newPIN)
	for name, pin := range map[string]string{"old": lab.PIN, "new": newPIN} {
		must.OK(t, os.WriteFile(filepath.Join(u.Dir, name), []byte(pin+"\n"), 0o600))
	}
	u.ok(u.Run(t.Context(), lab.Run{}, "/bin/sh", "-c",
		"cd "+u.Dir+" && kubehsm token pin change --pin-fd 3 --new-pin-fd 4 3<old 4<new"))
	if s := u.agentStatus(); len(s.Tokens) != 1 || s.Tokens[0].Unlocked {
		t.Errorf("the token is unlocked: %+v", s)
	}
	if res := u.ran(u.Kubectl(t.Context(), "get", "namespaces")); res.Code == 0 {
		t.Errorf("kubectl is signed in: %s", res)
	}
}

// privateKey logs in and finds the one private key.
func (u *user) privateKey(t *testing.T, ctx *p11.Ctx) (p11.SessionHandle, p11.ObjectHandle) {
	t.Helper()
	slots, err := ctx.GetSlotList(true)
	must.OK(t, err)
	session, err := ctx.OpenSession(slots[0], p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	must.OK(t, err)
	must.OK(t, ctx.Login(session, p11.CKU_USER, lab.PIN))
	must.OK(t, ctx.FindObjectsInit(session, []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY)}))
	keys, _, err := ctx.FindObjects(session, 10)
	must.OK(t, err)
	must.OK(t, ctx.FindObjectsFinal(session))
	if len(keys) != 1 {
		t.Fatalf("%d private keys", len(keys))
	}
	return session, keys[0]
}

// wrapping tries to take the key out encrypted by a key of the thief's.
func (u *user) wrapping(t *testing.T, ctx *p11.Ctx, session p11.SessionHandle, key p11.ObjectHandle) {
	t.Helper()
	thief, err := ctx.GenerateKey(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_KEY_GEN, nil)}, []*p11.Attribute{
		p11.NewAttribute(p11.CKA_CLASS, p11.CKO_SECRET_KEY), p11.NewAttribute(p11.CKA_VALUE_LEN, 32),
		p11.NewAttribute(p11.CKA_WRAP, true), p11.NewAttribute(p11.CKA_TOKEN, false),
	})
	must.OK(t, err)
	wrapped, err := ctx.WrapKey(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_KEY_WRAP_PAD, nil)}, thief, key)
	if err == nil || len(wrapped) != 0 {
		t.Errorf("the private key was wrapped: %d bytes", len(wrapped))
	}
}
