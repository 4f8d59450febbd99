package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/entry"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

// TestFollow: a kubeconfig that says that the cluster has moved is followed only
// to a host that was typed, and that shows a certificate of the enrolled authority.
func TestFollow(t *testing.T) {
	old := bridgetest.New(t, bridgetest.Options{})
	moved := bridgetest.New(t, bridgetest.Options{Like: old})
	foreign := bridgetest.New(t, bridgetest.Options{})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hsm.Fingerprint(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	uri, err := hsm.ParseURI("pkcs11:token=t;id=%01")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, server string
		answer       []hsmtest.Answer
		follows      bool
		err          error
	}{
		{"yes", moved.URL, []hsmtest.Answer{hsmtest.Yes()}, true, nil},
		{"no", moved.URL, []hsmtest.Answer{hsmtest.No()}, false, nil},
		{"cancelled", moved.URL, []hsmtest.Answer{hsmtest.Cancel()}, false, hsm.ErrCancelled},
		{"nobody to ask", moved.URL, []hsmtest.Answer{hsmtest.Fail(hsm.ErrNoTerminal)}, false, nil},
		{"another cluster", foreign.URL, []hsmtest.Answer{hsmtest.Yes()}, false, contexts.ErrUnproven},
		{"in clear text", "http://127.0.0.1:1", nil, false, enrollment.ErrInvalid},
		{"a password in it", "https://a:b@127.0.0.1:1", nil, false, enrollment.ErrInvalid},
		{"a host that looks like another", "https://аpi.example:6443", nil, false, contexts.ErrUnproven},
		{"a text", "https://api.example:6443/ Your administrators have announced this.", nil, false, contexts.ErrUnproven},
		{"more than a screen", "https://api.example:6443/" + strings.Repeat("a", 4000), nil, false, contexts.ErrUnproven},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			env := map[string]string{home.EnvHome: dir, execcredential.EnvVar: fmt.Sprintf(
				`{"apiVersion":%q,"kind":"ExecCredential","spec":{"cluster":{"server":"https://127.0.0.1:1/c/prod","config":{"enrollment":"prod","server":%q}}}}`,
				execcredential.V1beta1, c.server)}
			dirs, err := home.FromEnv(func(k string) string { return env[k] })
			if err != nil {
				t.Fatal(err)
			}
			store := enrollment.NewStore(dirs)
			e := enrollment.Enrollment{Name: "prod", Key: uri, KeyHash: hash, User: "alice", Created: time.Now(),
				Cluster: cluster.Cluster{Server: old.URL, CAData: old.CAPEM, Direct: true}}
			if err := dirs.Prepare(); err != nil {
				t.Fatal(err)
			}
			if err := store.Save(e); err != nil {
				t.Fatal(err)
			}
			script := hsmtest.NewScript(t, c.answer...)
			var out bytes.Buffer
			// The agent cannot be started: the answer ends there if it comes so far.
			run := Command{Getenv: func(k string) string { return env[k] }, Stdout: &out, Stderr: &out,
				Executable: dir + "/none", Prompter: script}
			err = run.Answer(t.Context(), "prod")
			var refused *entry.MovedError
			now, lerr := store.Load("prod")
			if lerr != nil {
				t.Fatal(lerr)
			}
			if c.follows != strings.Contains(out.String(), "from now on") {
				t.Errorf("said %q", out.String())
			}
			if c.follows {
				if errors.As(err, &refused) || now.Cluster.Server != c.server {
					t.Errorf("not followed: %v, %s", err, now.Cluster.Server)
				}
			} else if now.Cluster.Server != old.URL {
				t.Errorf("leads to %s", now.Cluster.Server)
			}
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if !c.follows && c.err == nil && (!errors.As(err, &refused) ||
				!strings.Contains(hinting.Of(err), "kubehsm kubeconfig refresh prod --server")) {
				t.Errorf("refused with %v (hint: %s)", err, hinting.Of(err))
			}
			asked := script.Prompts()
			if len(asked) != len(c.answer) {
				t.Fatalf("%d questions", len(asked))
			}
			if len(asked) == 1 {
				q := asked[0].Confirm
				host := strings.TrimPrefix(c.server, "https://")
				if q.Type != host || q.DefaultYes || !strings.Contains(q.Question, host) || !strings.Contains(q.Detail, old.URL) {
					t.Errorf("%+v", q)
				}
			}
		})
	}
}

// TestFollowSaysWhatProves: the question says whose certificate counts: where the
// system's authorities were enrolled, anybody has one.
func TestFollowSaysWhatProves(t *testing.T) {
	for _, c := range []struct {
		cluster cluster.Cluster
		want    string
	}{
		{cluster.Cluster{CAData: bridgetest.New(t, bridgetest.Options{}).CAPEM}, "the authority that you enrolled"},
		{cluster.Cluster{TLSServerName: "api.example"}, "for api.example"},
		{cluster.Cluster{}, "anybody can get"},
	} {
		env := map[string]string{home.EnvHome: t.TempDir()}
		dirs, err := home.FromEnv(func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		if err := dirs.Prepare(); err != nil {
			t.Fatal(err)
		}
		key, err := hsm.ParseURI("pkcs11:token=t;id=%01")
		if err != nil {
			t.Fatal(err)
		}
		c.cluster.Server = "https://old.example:6443"
		e := enrollment.Enrollment{Name: "prod", Key: key, KeyHash: strings.Repeat("0", 64), User: "alice",
			Created: time.Now(), Cluster: c.cluster}
		if err := enrollment.NewStore(dirs).Save(e); err != nil {
			t.Fatal(err)
		}
		script := hsmtest.NewScript(t, hsmtest.No())
		wrong := &entry.MovedError{Name: "prod", Enrolled: e.Cluster.Server, Server: "https://new.example:6443"}
		if err := (&Command{}).follow(t.Context(), dirs, script, wrong); !errors.Is(err, wrong) {
			t.Error(err)
		}
		if asked := script.Prompts(); len(asked) != 1 || !strings.Contains(asked[0].Confirm.Detail, c.want) {
			t.Errorf("%+v", asked)
		}
	}
}

// TestRewriteSaysOnce: a kubeconfig that cannot be written anew keeps nobody from working, and is told once a day.
// Nothing is said of one without the entry: the client uses another.
func TestRewriteSaysOnce(t *testing.T) {
	dir := t.TempDir()
	broken := dir + "/config"
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", broken)
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	if err != nil {
		t.Fatal(err)
	}
	if err := dirs.Prepare(); err != nil {
		t.Fatal(err)
	}
	e := rewritten(t, dirs)
	var said bytes.Buffer
	run := Command{Stderr: &said}
	for range 3 {
		run.rewrite(t.Context(), dirs, e)
	}
	if n := strings.Count(said.String(), "`kubehsm kubeconfig set prod` updates it"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	said.Reset()
	if err := os.WriteFile(broken, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run.rewrite(t.Context(), dirs, e)
	if said.Len() > 0 {
		t.Errorf("where the entry is in another file: %s", said.String())
	}
}

// rewritten stores an enrollment that has followed its cluster.
func rewritten(t *testing.T, dirs home.Dirs) enrollment.Enrollment {
	t.Helper()
	uri, err := hsm.ParseURI("pkcs11:token=t;id=%01")
	if err != nil {
		t.Fatal(err)
	}
	e := enrollment.Enrollment{Name: "prod", Key: uri, KeyHash: strings.Repeat("0", 64), User: "alice", Created: time.Now(),
		Cluster: cluster.Cluster{Server: "https://old.example:6443"}}.Follows(cluster.Cluster{Server: "https://new.example:6443"})
	if err := enrollment.NewStore(dirs).Save(e); err != nil {
		t.Fatal(err)
	}
	return e
}
