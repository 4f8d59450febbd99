//go:build linux

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestThief: a program of the same user has nothing of a yes to kubectl: not by
// naming that kubectl, while it runs or later, nor with its loopback certificate.
func TestThief(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("thief")
	u.admin("create", "namespace", namespace)
	for _, name := range []string{"a", "b"} {
		u.admin("-n", namespace, "create", "configmap", name)
	}
	u.consents("writes")
	if _, err := u.InterposePlugin(0); err != nil {
		t.Fatal(err)
	}
	stolen := filepath.Join(u.Dir, "stolen")
	script := fmt.Sprintf("#!/bin/bash\nexec '%s' \"$@\" > >(tee '%s')\n", u.Binary, stolen)
	if err := os.WriteFile(filepath.Join(u.Dir, "bin", "plugin"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: u.Home}[k] })
	if err != nil {
		t.Fatal(err)
	}
	names := func(claimed bridge.Client) {
		t.Helper()
		a, err := client.Dial(t.Context(), dirs)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		s, err := a.Prepare(t.Context(), client.PrepareRequest{Enrollment: enrolled, Client: claimed,
			Purpose: hsm.Purpose{Command: "kubectl"}}, nil)
		if !errors.Is(err, message.ErrNotClient) || len(s.Key) > 0 {
			t.Errorf("the thief that names process %d gets %v, %v", claimed.PID, s, err)
		}
	}
	uses := func(words string) {
		t.Helper()
		code, body := u.sendWith(stolen, dirs, "/api/v1/namespaces/"+namespace+"/configmaps/b")
		if code != http.StatusUnauthorized || !strings.Contains(body, words) {
			t.Errorf("the thief with its certificate gets %d %s", code, body)
		}
	}

	kubectl := "kubectl -n " + namespace + " "
	s := u.sh(kubectl + "delete configmap a; echo code $?; " + kubectl + "get configmap -o name -w")
	s.WaitFor("delete configmaps", `"a"`, question)
	s.Type("y\r")
	s.WaitFor("code 0", "configmap/b")
	sessions := u.sessions()
	living := slices.IndexFunc(sessions, func(st bridge.SessionStatus) bool { return st.Client.Alive() && st.Open > 0 })
	dead := slices.IndexFunc(sessions, func(st bridge.SessionStatus) bool { return !st.Client.Alive() && st.Requests > 0 })
	if living < 0 || dead < 0 {
		t.Fatalf("%+v", sessions)
	}
	names(sessions[living].Client)
	uses("each program has to run `kubehsm credential` itself") // the last kubectl's certificate was stolen
	s.Press(term.CtrlC)
	s.Exit()
	poll.Until(t, "kubectl has ended", func() bool { return !sessions[living].Client.Alive() })
	names(sessions[living].Client)
	names(sessions[dead].Client)
	uses("kubehsm: the ") // The bridge says whose the certificate was until it has seen that kubectl has ended.
	u.admin("-n", namespace, "get", "configmap", "b")

	var log struct {
		Records []struct{ Event, Outcome, Reason, Error string }
	}
	if err := json.Unmarshal([]byte(u.kubehsm("audit", "-o", "json")), &log); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range log.Records {
		seen[strings.TrimSpace(r.Event+" "+r.Outcome+" "+r.Reason+r.Error)] = true
	}
	for _, want := range []string{"session refused not-client", "denial  other-process"} {
		if !seen[want] {
			t.Errorf("%q is not in %v", want, seen)
		}
	}
}

// sendWith deletes what is at the path with the credential in the file.
func (u *user) sendWith(credential string, dirs home.Dirs, path string) (int, string) {
	u.t.Helper()
	fail := func(err error) {
		u.t.Helper()
		if err != nil {
			u.t.Fatal(err)
		}
	}
	b, err := os.ReadFile(credential)
	fail(err)
	var c struct {
		Status struct{ ClientCertificateData, ClientKeyData string }
	}
	fail(json.Unmarshal(b, &c))
	pair, err := tls.X509KeyPair([]byte(c.Status.ClientCertificateData), []byte(c.Status.ClientKeyData))
	fail(err)
	ep, err := loopback.Setup(dirs)
	fail(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ep.CAPEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		Certificates: []tls.Certificate{pair}}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodDelete, ep.URL(enrolled)+path, nil)
	fail(err)
	resp, err := client.Do(r)
	fail(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fail(err)
	return resp.StatusCode, string(body)
}

// sessions are those of the agent.
func (u *user) sessions() []bridge.SessionStatus {
	u.t.Helper()
	var s struct{ Sessions []bridge.SessionStatus }
	if err := json.Unmarshal([]byte(u.kubehsm("agent", "status", "-o", "json")), &s); err != nil {
		u.t.Fatal(err)
	}
	return s.Sessions
}
