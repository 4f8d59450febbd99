//go:build linux

// Package kubeadm tests that bootstrap tokens and discovery are kubeadm's: what
// upstream's kubeadm writes is read here, and the other way round.
package kubeadm

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// build compiles kubeadm of the cluster's version, with the flags of the control
// plane, whose compiled packages it shares.
func build(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "kubeadm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out,
		".")
	cmd.Dir, cmd.Env = "program", append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		need.Missing(t, "kubeadm does not build: "+err.Error()+"\n"+string(said))
	}
	return out
}

// listed is a token as both programs list it.
type listed struct {
	Token, Description string
	Usages, Groups     []string
	Expires            time.Time
}

func (a listed) equal(b listed) bool {
	slices.Sort(a.Usages)
	slices.Sort(b.Usages)
	return a.Token == b.Token && a.Description == b.Description && slices.Equal(a.Usages, b.Usages) &&
		slices.Equal(a.Groups, b.Groups) && a.Expires.Equal(b.Expires) && !a.Expires.IsZero()
}

type desk struct {
	*lab.Person
	program string
}

func (d *desk) run(program string, args ...string) string {
	d.T.Helper()
	env := []string{"KUBECONFIG=" + d.Cluster.AdminKubeconfig(), "KUBEADM_JOIN_DRYRUN_DIR=" + d.Dir}
	out, err := lab.Succeeded(d.Run(d.T.Context(), lab.Run{Env: env}, program, args...))
	d.Must(err)
	return strings.TrimSpace(out)
}

func (d *desk) kubeadm(args ...string) string { d.T.Helper(); return d.run(d.program, args...) }
func (d *desk) ours(args ...string) string    { d.T.Helper(); return d.run(d.Binary, args...) }

// kubeadmLists are the tokens that kubeadm sees: a JSON document each.
func (d *desk) kubeadmLists(token string) (l listed) {
	d.T.Helper()
	for docs := json.NewDecoder(strings.NewReader(d.kubeadm("token", "list", "-o", "json"))); docs.More(); {
		var one struct {
			Token, Description string
			Usages, Groups     []string
			Expires            time.Time
		}
		d.Must(docs.Decode(&one))
		if one.Token == token {
			l = listed(one)
		}
	}
	return l
}

// weList are the tokens that kubehsm sees.
func (d *desk) weList(token string) (l listed) {
	d.T.Helper()
	var doc struct {
		Tokens []struct {
			Token, Description string
			Usages, Groups     []string
			Expires            time.Time
		}
	}
	d.Must(json.Unmarshal([]byte(d.ours("bootstrap-token", "list", "--reveal", "-o", "json")), &doc))
	for _, one := range doc.Tokens {
		if one.Token == token {
			l = listed(one)
		}
	}
	return l
}

func TestKubeadm(t *testing.T) {
	p := lab.ForTest(t, lab.Options{})
	d := &desk{p, build(t)}
	p.Must(p.Cluster.PublishInfo(t.Context(), p.Cluster.Server()))
	p.Must(p.ApplyRoles(t.Context(), "ticket"))
	address := strings.TrimPrefix(p.Cluster.Server(), "https://")

	// Theirs, read by us, and joined with by hand.
	theirs := d.kubeadm("token", "create", "--ttl", "2h", "--description", "by kubeadm", "--groups",
		"system:bootstrappers:kubehsm:tickets")
	if seen := d.weList(theirs); !seen.equal(d.kubeadmLists(theirs)) || seen.Description != "by kubeadm" {
		t.Errorf("we see of kubeadm's token: %+v; kubeadm: %+v", seen, d.kubeadmLists(theirs))
	}
	command := strings.Fields(d.kubeadm("token", "create", "--print-join-command"))
	at := slices.Index(command, "--discovery-token-ca-cert-hash")
	if at < 0 || command[2] != address {
		t.Fatalf("kubeadm's join command: %q", command)
	}
	hash := command[at+1]
	file := filepath.Join(p.Dir, "token")
	p.Must(os.WriteFile(file, []byte(theirs+"\n"), 0o600))
	out, err := lab.Succeeded(p.KubehsmPIN(t.Context(), lab.PIN, "join", address, "--token", file,
		"--discovery-token-ca-cert-hash", hash,
		"--user", "kim", "--name", "joined", "--approve-with", p.Cluster.AdminKubeconfig(), "--yes"))
	p.Must(err)
	if !strings.Contains(out, "Enrolled: authenticated as kim") {
		t.Errorf("joined with kubeadm's token and hash:\n%s", out)
	}

	// Ours, read by kubeadm, which discovers the cluster with it.
	ours := d.ours("bootstrap-token", "create", "--ttl", "3h", "--description", "by kubehsm")
	if seen := d.kubeadmLists(ours); !seen.equal(d.weList(ours)) || seen.Description != "by kubehsm" {
		t.Errorf("kubeadm sees of our token: %+v; we: %+v", seen, d.weList(ours))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // kubeadm retries for ever
	defer cancel()
	res, err := p.Run(ctx, lab.Run{Env: []string{"KUBEADM_JOIN_DRYRUN_DIR=" + p.Dir}}, d.program, "join", "phase",
		"preflight", address,
		"--token", ours, "--discovery-token-ca-cert-hash", hash, "--dry-run", "--ignore-preflight-errors=all", "--node-name", "n", "--cri-socket", "unix:///nowhere", "-v=2")
	p.Must(err)
	if said := res.Stdout + res.Stderr; res.Code != 0 || !strings.Contains(said, "signature and contents are valid") {
		t.Errorf("kubeadm's discovery with our token: %s", res)
	}
	if printed := d.ours("bootstrap-token", "create", "--print-join-command"); !strings.Contains(printed, hash) {
		t.Errorf("our join command has another hash than kubeadm's, %s: %s", hash, printed)
	}

	// Each deletes what the other wrote.
	d.kubeadm("token", "delete", ours)
	d.ours("bootstrap-token", "delete", theirs[:6])
	if l := d.weList(ours); l.Token != "" {
		t.Errorf("still there: %+v", l)
	}
	if l := d.kubeadmLists(theirs); l.Token != "" {
		t.Errorf("still there: %+v", l)
	}
}
