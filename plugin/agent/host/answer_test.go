//go:build unix

package host

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/quick"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// asked is what kubectl puts into the plugin's environment.
func asked(server, enrolled string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":"ExecCredential","spec":{"interactive":true,"cluster":{"server":%q,"config":{"enrollment":"prod","server":%q}}}}`,
		execcredential.V1, server, enrolled)
}

// atHand asks the agent of this program.
func atHand(t *testing.T, socket, name, info string) []byte {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	return quick.Credential(self, socket, wire.Credential{Enrollment: name, ExecInfo: info})
}

// TestCredentialAtHand: one round trip gives what a prepare gives, and only
// when nothing is in the way.
func TestCredentialAtHand(t *testing.T) {
	r := newRig(t, rigOptions{life: 90 * 24 * time.Hour})
	good := asked(r.ep.URL("prod"), r.e.Cluster.Server)
	socket := r.dirs.Socket()
	if b := atHand(t, socket, "prod", good); b != nil {
		t.Fatal("a cold agent answered")
	}
	r.mustAgent(func(a *agent) {
		if a.targets.current("prod") != nil {
			t.Error("a refused credential was checked as far as it will be again")
		}
	})
	s, err := r.prepare(r.dial(), process.Parent(), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)

	var got struct {
		APIVersion string
		Status     struct {
			ClientCertificateData, ClientKeyData string
			ExpirationTimestamp                  time.Time
		}
	}
	check(t, json.Unmarshal(atHand(t, socket, "prod", good), &got))
	if got.Status.ClientCertificateData != string(s.Certificate) || got.APIVersion != execcredential.V1 {
		t.Errorf("not the session's credential: %+v", got)
	}
	if left := time.Until(got.Status.ExpirationTimestamp); left < time.Minute || left > 6*time.Minute {
		t.Errorf("it is good for %v", left)
	}
	_, err = tls.X509KeyPair([]byte(got.Status.ClientCertificateData), []byte(got.Status.ClientKeyData))
	check(t, err)
	if atHand(t, socket, "", good) == nil {
		t.Error("the enrollment that the cluster names was not taken")
	}

	if b := atHand(t, socket, "prod", ""); !bytes.Contains(b, []byte(`"`+execcredential.V1beta1+`"`)) {
		t.Errorf("to a client that asks nothing: %q", b)
	}
	for name, c := range map[string][2]string{
		"nothing":               {"", ""},
		"another enrollment":    {"other", good},
		"a path":                {"../prod", good},
		"another API server":    {"prod", asked(r.ep.URL("prod"), "https://evil.example")},
		"not to the bridge":     {"prod", asked(r.e.Cluster.Server, r.e.Cluster.Server)},
		"not an ExecCredential": {"prod", "{}"},
		"a version long gone":   {"prod", `{"apiVersion":"client.authentication.k8s.io/v1alpha1","kind":"ExecCredential"}`},
	} {
		if atHand(t, socket, c[0], c[1]) != nil {
			t.Errorf("%s: answered", name)
		}
	}

	check(t, only(r.dial().Lock(t.Context())))
	if atHand(t, socket, "prod", good) != nil {
		t.Error("a locked agent answered")
	}
}

// TestOtherProgramAsksInFull: it may have to replace the agent, or to speak of it.
func TestOtherProgramAsksInFull(t *testing.T) {
	r := newRig(t, rigOptions{life: 90 * 24 * time.Hour})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	path, err := os.Executable()
	check(t, err)
	mine, err := message.BuildOf(path, path, "")
	check(t, err)
	ask := func(v int, b wire.Build) byte {
		t.Helper()
		c, err := net.Dial("unix", r.dirs.Socket())
		check(t, err)
		defer c.Close()
		check(t, wire.WriteJSON(c, wire.Credential{V: v, Op: wire.OpCredential, Enrollment: "prod",
			ExecInfo: asked(r.ep.URL("prod"), r.e.Cluster.Server), Program: b}))
		f, err := wire.ReadFrame(c)
		check(t, err)
		return f.Kind
	}
	if ask(wire.Version, mine) != wire.KindSecret {
		t.Fatal("the agent's own program got no answer")
	}
	elsewhere, newer := mine, mine
	elsewhere.Path, newer.Modified = "/usr/bin/kubehsm", mine.Modified.Add(time.Second)
	if ask(wire.Version, elsewhere) != wire.KindJSON || ask(wire.Version, newer) != wire.KindJSON ||
		ask(wire.Version+1, mine) != wire.KindJSON {
		t.Error("another program, or another protocol, got an answer")
	}
}

// TestNobodyAtHand: without an agent, or with one that says nothing, the program
// goes on by itself, after a moment.
func TestNobodyAtHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{idle: true})
	if atHand(t, r.dirs.Socket(), "prod", "{}") != nil {
		t.Error("nobody answered")
	}
	l, err := socket.Listen(r.dirs.Socket())
	check(t, err)
	defer l.Close()
	if atHand(t, r.dirs.Socket(), "prod", "{}") != nil {
		t.Error("one who says nothing answered")
	}
}
