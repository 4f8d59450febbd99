//go:build linux

package scenarios

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestKilledOnAToken kills the commands that write to a SoftHSM token after each call of the
// library that writes, and in the middle of one. Doctor then names what is left, and the
// command that it offers deletes that and nothing else, as the library's own list tells.
func TestKilledOnAToken(t *testing.T) {
	k := newKilled(t)
	whole := k.key("whole")
	k.run("certificate", "import", "--key", whole, k.certificate("whole", 1))
	untouched := k.objects()
	if len(untouched) != 3 {
		t.Fatalf("at first there are %q", untouched)
	}

	const (
		unknown = "a key without a certificate that no enrollment"
		apart   = "a private key and its public key, under different ids"
		public  = "a public key without its private key"
		lone    = "a certificate without its key"
		older   = "1 older certificate beside the newest one"
	)
	// left deletes what doctor names, which is what wants says; then the token is as before.
	left := func(t *testing.T, after []string, wants ...string) {
		t.Helper()
		var found []string
		leftovers := k.leftovers(t)
		for _, l := range leftovers {
			i := slices.IndexFunc(wants, func(w string) bool { return strings.Contains(l.Found, w) })
			if i < 0 {
				t.Fatalf("found %q, want %q; there are %q", l.Found, wants, k.objects())
			}
			found = append(found, wants[i])
		}
		if len(found) != len(wants) {
			t.Fatalf("found %q, want %q; there are %q", found, wants, k.objects())
		}
		for _, l := range leftovers {
			k.shell(t, l.Fix)
		}
		if now := k.objects(); !slices.Equal(now, after) {
			t.Fatalf("afterwards there are %q, want %q", now, after)
		}
		if more := k.leftovers(t); len(more) != 0 {
			t.Fatalf("there is more: %+v", more)
		}
	}
	generate := []string{"key", "generate", "--token", k.token, "--label", "new"}

	t.Run("generate", func(t *testing.T) {
		k.killedIn(t, k.folder(), generate...)
		left(t, untouched, public)
		for at, wants := range [][]string{{unknown}, {apart}, {unknown}} {
			k.killed(t, at+1, generate...)
			left(t, untouched, wants...)
		}
		k.lives(t, 3, generate...)
		left(t, untouched, unknown)
	})
	t.Run("import", func(t *testing.T) {
		key := k.key("new")
		k.run("certificate", "import", "--key", key, k.certificate("new", 1))
		again := []string{"certificate", "import", "--key", key, k.certificate("new", 2)}
		k.killed(t, 1, again...)
		both := k.objects()
		if len(both) != 7 {
			t.Fatalf("there are %q", both)
		}
		newest := slices.DeleteFunc(slices.Clone(both), func(o string) bool {
			return strings.HasSuffix(o, "serial 1 of new")
		})
		left(t, newest, older)
		k.run("certificate", "import", "--key", key, k.certificate("new", 3))
		k.killed(t, 2, "certificate", "import", "--key", key, k.certificate("new", 4))
		left(t, k.objects())
		k.destroy(t, key)
	})
	t.Run("delete", func(t *testing.T) {
		for at, wants := range [][]string{{public}, {lone}, nil} {
			key := k.key("new")
			k.run("certificate", "import", "--key", key, k.certificate("new", 1))
			k.killed(t, at+1, "key", "delete", "--key", key, "--accept-risk", "serial:"+k.serial)
			left(t, untouched, wants...)
		}
		key := k.key("new")
		k.run("certificate", "import", "--key", key, k.certificate("new", 1))
		k.lives(t, 3, "key", "delete", "--key", key, "--accept-risk", "serial:"+k.serial)
	})
	if now := k.objects(); !slices.Equal(now, untouched) {
		t.Errorf("in the end there are %q, want %q", now, untouched)
	}
}

// killing is a lab whose commands die at their work on a token.
type killing struct {
	*lab.Lab
	t             *testing.T
	mortal        string // library
	token, serial string // the token's URI, its serial
	authority     *ecdsa.PrivateKey
}

func newKilled(t *testing.T) *killing {
	need.Program(t, "softhsm2-util")
	l, err := lab.New(t.TempDir(), lab.Options{Binary: suite.binary})
	must(t, err)
	k := &killing{Lab: l, t: t, mortal: badlib.Mortal(t), token: "pkcs11:token=" + lab.Token}
	t.Setenv("SOFTHSM2_CONF", l.Soft.Conf) // The library in this process reads it.
	k.authority, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	k.with(k.Soft.Module, nil)
	var tokens struct{ Tokens []struct{ Serial string } }
	must(t, json.Unmarshal([]byte(k.run("token", "list", "-o", "json")), &tokens))
	k.serial = tokens.Tokens[0].Serial
	return k
}

// with names the library in the configuration, and its environment.
func (k *killing) with(library string, env map[string]string) {
	k.t.Helper()
	text := fmt.Sprintf("onlyModules: true\nmodules:\n- path: %s\n  env:\n    SOFTHSM2_CONF: %s\n    %s: %s\n",
		library, k.Soft.Conf, badlib.Real, k.Soft.Module)
	for name, value := range env {
		text += fmt.Sprintf("    %s: %q\n", name, value)
	}
	must(k.t, os.WriteFile(filepath.Join(k.Home, "config.yaml"), []byte(text), 0o600))
}

// run runs a command that must succeed.
func (k *killing) run(args ...string) string {
	k.t.Helper()
	out, err := lab.Succeeded(k.KubehsmPIN(k.t.Context(), lab.PIN, args...))
	must(k.t, err)
	return out
}

// shell runs a command as doctor says it, with the consent that it wants.
func (k *killing) shell(t *testing.T, line string) {
	t.Helper()
	_, err := lab.Succeeded(k.Run(t.Context(), lab.Run{PIN: lab.PIN}, "/bin/sh", "-c",
		line+" --pin-fd 3 --accept-risk serial:"+k.serial))
	must(t, err)
}

// killed runs a command that dies after its nth call that writes.
func (k *killing) killed(t *testing.T, at int, args ...string) {
	t.Helper()
	k.dies(t, map[string]string{badlib.KillAt: fmt.Sprint(at)}, args...)
}

// killedIn runs a command that dies while it makes a key pair.
func (k *killing) killedIn(t *testing.T, folder string, args ...string) {
	t.Helper()
	k.dies(t, map[string]string{badlib.KillIn: folder}, args...)
}

func (k *killing) dies(t *testing.T, env map[string]string, args ...string) {
	t.Helper()
	k.with(k.mortal, env)
	defer k.with(k.Soft.Module, nil)
	res, err := k.KubehsmPIN(t.Context(), lab.PIN, args...)
	must(t, err)
	if res.Code != -1 {
		t.Fatalf("%q was not killed at %v: %s", args, env, res)
	}
}

// lives runs a command to its end, which must write that often: what is killed is killed
// at every step.
func (k *killing) lives(t *testing.T, writes int, args ...string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "writes")
	k.with(k.mortal, map[string]string{badlib.KillLog: log})
	defer k.with(k.Soft.Module, nil)
	k.run(args...)
	if b, err := os.ReadFile(log); err != nil || len(b) != writes {
		t.Errorf("%q writes %d times, want %d: %v", args, len(b), writes, err)
	}
}

// key makes a whole key and returns its URI, without the library.
func (k *killing) key(label string) string {
	k.t.Helper()
	var made struct{ URI string }
	must(k.t, json.Unmarshal([]byte(k.run("key", "generate", "--token", k.token, "--label", label, "-o", "json")), &made))
	uri, _, _ := strings.Cut(made.URI, "?") // Another library reaches it, too.
	return uri
}

func (k *killing) destroy(t *testing.T, key string) {
	t.Helper()
	k.shell(t, "kubehsm key delete --key '"+key+"'")
}

// leftover is what doctor says of one.
type leftover struct{ ID, Found, Fix string }

func (k *killing) leftovers(t *testing.T) (left []leftover) {
	t.Helper()
	var doc struct{ Checks []leftover }
	res, err := k.KubehsmPIN(t.Context(), lab.PIN, "doctor", "--offline", "-o", "json", "--unlock", k.token)
	must(t, err)
	if err := json.Unmarshal([]byte(res.Stdout), &doc); err != nil {
		t.Fatalf("%v: %s", err, res)
	}
	for _, c := range doc.Checks {
		if strings.HasPrefix(c.ID, "leftover/") {
			left = append(left, c)
		}
	}
	return left
}

// folder is where SoftHSM keeps the token.
func (k *killing) folder() string {
	k.t.Helper()
	all, err := filepath.Glob(filepath.Join(k.Soft.Tokens, "*"))
	if err != nil || len(all) != 1 {
		k.t.Fatalf("%q, %v", all, err)
	}
	return all[0]
}

// looking gives f a session with the library, in which private objects are seen.
func (k *killing) looking(f func(ctx *p11.Ctx, session p11.SessionHandle)) {
	k.t.Helper()
	ctx := p11.New(k.Soft.Module)
	if ctx == nil {
		k.t.Fatalf("%s cannot be loaded", k.Soft.Module)
	}
	defer ctx.Destroy()
	must(k.t, ctx.Initialize())
	defer func() { must(k.t, ctx.Finalize()) }()
	slots, err := ctx.GetSlotList(true)
	must(k.t, err)
	session, err := ctx.OpenSession(slots[0], p11.CKF_SERIAL_SESSION)
	must(k.t, err)
	must(k.t, ctx.Login(session, p11.CKU_USER, lab.PIN))
	f(ctx, session)
}

func (k *killing) found(ctx *p11.Ctx, session p11.SessionHandle, want ...*p11.Attribute) []p11.ObjectHandle {
	k.t.Helper()
	must(k.t, ctx.FindObjectsInit(session, want))
	found, _, err := ctx.FindObjects(session, 100)
	must(k.t, err)
	must(k.t, ctx.FindObjectsFinal(session))
	return found
}

// objects are all objects on the token, in words, sorted.
func (k *killing) objects() (all []string) {
	k.t.Helper()
	k.looking(func(ctx *p11.Ctx, session p11.SessionHandle) {
		for _, o := range k.found(ctx, session) {
			a, err := ctx.GetAttributeValue(session, o, []*p11.Attribute{p11.NewAttribute(p11.CKA_CLASS, nil),
				p11.NewAttribute(p11.CKA_ID, nil), p11.NewAttribute(p11.CKA_LABEL, nil)})
			must(k.t, err)
			class := a[0].Value[0]
			words := fmt.Sprintf("class %d, id %s, label %s", class, hex.EncodeToString(a[1].Value), a[2].Value)
			if class == p11.CKO_CERTIFICATE {
				v, err := ctx.GetAttributeValue(session, o, []*p11.Attribute{p11.NewAttribute(p11.CKA_VALUE, nil)})
				must(k.t, err)
				cert, err := x509.ParseCertificate(v[0].Value)
				must(k.t, err)
				words += fmt.Sprintf(", serial %s of %s", cert.SerialNumber, cert.Subject.CommonName)
			}
			all = append(all, words)
		}
	})
	slices.Sort(all)
	return all
}

// certificate is a file with the nth certificate for the key with a label.
func (k *killing) certificate(label string, n int64) string {
	k.t.Helper()
	var public *ecdsa.PublicKey
	k.looking(func(ctx *p11.Ctx, session p11.SessionHandle) {
		found := k.found(ctx, session, p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY),
			p11.NewAttribute(p11.CKA_LABEL, label))
		if len(found) != 1 {
			k.t.Fatalf("%d keys %q", len(found), label)
		}
		a, err := ctx.GetAttributeValue(session, found[0], []*p11.Attribute{p11.NewAttribute(p11.CKA_EC_POINT, nil)})
		must(k.t, err)
		var point []byte
		_, err = asn1.Unmarshal(a[0].Value, &point)
		must(k.t, err)
		public, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		must(k.t, err)
	})
	begins := time.Now().Add(time.Duration(n-60) * time.Minute)
	template := &x509.Certificate{SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: label}, NotBefore: begins,
		NotAfter: begins.Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, k.authority)
	must(k.t, err)
	var text bytes.Buffer
	must(k.t, pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	file := filepath.Join(k.t.TempDir(), "certificate.pem")
	must(k.t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}
