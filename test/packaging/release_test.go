package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// aRelease is a folder as somebody has it who downloaded a release: its files, signed with a throw-away key.
func aRelease(t *testing.T) string {
	t.Helper()
	need.Program(t, "ssh-keygen")
	dist := t.TempDir()
	for _, name := range []string{"kubehsm_1.0.0_amd64.deb", "kubehsm_1.0.0_linux_amd64.tar.gz", "krew/hsm.yaml", "metadata.json"} {
		put(t, filepath.Join(dist, name), "This is "+name)
	}
	script(t, "files", dist)
	key := newKey(t)
	release := filepath.Join(dist, "release")
	script(t, "sign", release, key)
	signers(t, release, key)
	return release
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

// script runs release.sh, which must succeed.
func script(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("./release.sh", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("release.sh %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func newKey(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return key
}

// signers writes an allowed_signers with one key, in the form that docs/allowed_signers gives.
func signers(t *testing.T, release, key string) {
	t.Helper()
	public, err := os.ReadFile(key + ".pub")
	must.OK(t, err)
	ours, err := os.ReadFile("../../docs/allowed_signers")
	must.OK(t, err)
	form := regexp.MustCompile(`(?m)^#   (kubehsm .*) ssh-ed25519 KEY$`).FindSubmatch(ours)
	if form == nil {
		t.Fatal("docs/allowed_signers does not say what its lines look like")
	}
	put(t, filepath.Join(release, "allowed_signers"), string(form[1])+" "+string(public))
}

// verify runs what docs/install.md tells people to run.
func verify(t *testing.T, release string) (string, error) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/install.md")
	must.OK(t, err)
	_, rest, _ := strings.Cut(string(guide), "## Verify a release")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/install.md has no commands under Verify a release")
	}
	c := exec.Command("sh", "-e", "-c", commands)
	c.Dir = release
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestVerifyARelease: the commands of docs/install.md accept a release as it was signed, also one file of it, and
// refuse whatever was changed since.
func TestVerifyARelease(t *testing.T) {
	release := aRelease(t)
	out, err := verify(t, release)
	if err != nil || !strings.Contains(out, `Good "kubehsm-release" signature for kubehsm`) ||
		strings.Count(out, ": OK") != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(release, "metadata.json")); err == nil {
		t.Error("what is not published is in the folder")
	}
	must.OK(t, os.Remove(filepath.Join(release, "hsm.yaml")))
	if out, err := verify(t, release); err != nil || strings.Count(out, ": OK") != 2 {
		t.Errorf("without one file: %v\n%s", err, out)
	}
	for name, change := range map[string]func(release string){
		"a file":     func(r string) { put(t, filepath.Join(r, "kubehsm_1.0.0_amd64.deb"), "another") },
		"the sums":   func(r string) { put(t, filepath.Join(r, "SHA256SUMS"), "") },
		"the signer": func(r string) { signers(t, r, newKey(t)) },
		"the signature": func(r string) {
			other := newKey(t)
			script(t, "sign", r, other)
		},
		"what was signed for": func(r string) {
			key := newKey(t)
			signers(t, r, key)
			sums := filepath.Join(r, "SHA256SUMS")
			must.OK(t, os.Remove(sums+".sig"))
			if out, err := exec.Command("ssh-keygen", "-Y", "sign", "-n", "git", "-f", key, sums).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
	} {
		r := aRelease(t)
		change(r)
		if out, err := verify(t, r); err == nil {
			t.Errorf("%s was changed, and nobody noticed:\n%s", name, out)
		}
	}
}

// TestSignChecksTheSums: what is not as it is listed is not signed.
func TestSignChecksTheSums(t *testing.T) {
	release := aRelease(t)
	put(t, filepath.Join(release, "hsm.yaml"), "another")
	if out, err := exec.Command("./release.sh", "sign", release, newKey(t)).CombinedOutput(); err == nil {
		t.Errorf("signed:\n%s", out)
	}
}

// TestNotes: a release's notes are its section of the changelog; a version without one is refused.
func TestNotes(t *testing.T) {
	notes := script(t, "notes", "Unreleased")
	if !strings.Contains(notes, "### ") || strings.Contains(notes, "\n## ") {
		t.Errorf("notes: %.200s", notes)
	}
	c := exec.Command("./release.sh", "notes", "v999.0.0")
	var errs bytes.Buffer
	c.Stderr = &errs
	if out, err := c.Output(); err == nil || len(out) > 0 || !strings.Contains(errs.String(), "[999.0.0]") {
		t.Errorf("%v, %q, %q", err, out, errs.String())
	}
}
