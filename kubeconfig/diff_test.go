package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestDiffIsADiff gives the diffs of all shapes to patch(1).
func TestDiffIsADiff(t *testing.T) {
	patch := need.Program(t, "patch")
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.text, "token") {
				return // redacted: not to be patched with
			}
			r, path := one(t, c.text)
			p := mustPlan(t, r, entry("prod"))
			copied := filepath.Join(folder(t), "copy")
			must.OK(t, os.WriteFile(copied, []byte(c.text), 0o600))
			cmd := exec.Command(patch, "--binary", "-s", copied)
			cmd.Stdin = strings.NewReader(p.Diff())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, p.Diff())
			}
			mustApply(t, p, "")
			want := text(t, path)
			if strings.Contains(want, redacted) {
				t.Error("redaction reached the file")
			}
			if got := text(t, copied); strings.ReplaceAll(got, "\r", "") != strings.ReplaceAll(hidden(want), "\r", "") {
				t.Errorf("patched:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func hidden(s string) string { return strings.Join(redact(s), "") }

func TestDiffHidesSecrets(t *testing.T) {
	for i, c := range []string{
		"users:\n- name: one\n  user:\n    token: SECRETxx\n",
		"users:\n- name: one\n  user: {token: SECRETxx, client-key-data: SECRETxx}\n",
		"users:\n- name: one\n  user: {\"password\": \"a \\\" SECRETxx, }\"}\n",
		"users:\n- name: one\n  user:\n    client-key-data: |\n      SECRETxx\n\n      SECRETxx\n",
		"users:\n- name: one\n  user:\n    client-key-data: >-\n     SECRETxx\n    password: 'x\n      SECRETxx'\n",
		"users:\n- name: one\n  user:\n    \"client-key-data\":   SECRETxx # SECRETxx\n",
		"users:\n- user:\n    auth-provider:\n      config:\n        id-token: SECRETxx\n        refresh-token: SECRETxx\n        client-secret: SECRETxx\n        pin: SECRETxx\n      name: oidc\n  name: one\n",
		"users:\n- name: one\n  user:\n    exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1, env: [{name: A, value: SECRETxx}], args: [\"--token=SECRETxx\", \"--password\", \"SECRETxx\"]}\n",
		"users:\n- name: one\n  user:\n    exec:\n      command: x\n      apiVersion: client.authentication.k8s.io/v1beta1\n      env:\n      - name: A\n        value: SECRETxx\n      - value: SECRETxx\n        name: B\n      args:\n      - --oidc-client-secret=SECRETxx\n      - --token\n      - SECRETxx\n",
	} {
		for _, text := range []string{c, strings.ReplaceAll(c, "\n", "\r\n")} {
			// Removing the entry prints every line of it.
			r, _ := one(t, text)
			p, err := r.PlanRemove(context.Background(), "one", Options{Replace: true})
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			if d := p.Diff(); strings.Contains(d, "SECRET") || !strings.Contains(d, redacted) {
				t.Errorf("%d: the diff shows\n%s", i, d)
			}
		}
	}
	visible := "users:\n- name: one\n  user:\n    client-key: /path\n    tokenFile: /path\n    client-certificate-data: QUJD\n"
	visible += "    exec:\n      env:\n      - name: KUBERNETES_EXEC_INFO\n        value: '{\"kind\":\"ExecCredential\",\"spec\":{}}'\n"
	if hidden(visible) != visible {
		t.Errorf("hides too much:\n%s", hidden(visible))
	}
	odd := "      - {name: A, value: SECRET}\n      - name: KUBERNETES_EXEC_INFO\n        value: '{\"status\":{\"token\":\"SECRET\"}}'\n"
	if strings.Contains(hidden(odd), "SECRET") {
		t.Errorf("shows a token:\n%s", hidden(odd))
	}
}

// TestUndoConflicts: a file that was changed since stays as it is.
func TestUndoConflicts(t *testing.T) {
	ctx := context.Background()
	r, path := one(t, kubectlStyle)
	j := Backups(folder(t))
	if _, err := r.PlanUndo(ctx, j); !errors.Is(err, ErrNoBackup) {
		t.Errorf("nothing was changed: %v", err)
	}
	mustApply(t, mustPlan(t, r, entry("prod")), j)
	must.OK(t, modify(path, "theirs"))
	if _, err := r.PlanUndo(ctx, j); !errors.Is(err, ErrConflict) || hinting.Of(err) == "" {
		t.Errorf("a file that was changed since: %v", err)
	}
	if _, err := (Rules{Explicit: filepath.Join(folder(t), "other")}).PlanUndo(ctx, j); !errors.Is(err, ErrNoBackup) {
		t.Errorf("another file: %v", err)
	}
	// A change that comes between the plan and its application is not lost.
	mustApply(t, mustPlan(t, r, killEntry()), j)
	p, err := r.PlanUndo(ctx, j)
	must.OK(t, err)
	must.OK(t, modify(path, "more"))
	if err := p.Apply(ctx, j); !errors.Is(err, ErrChanged) {
		t.Errorf("applied on top of another change: %v", err)
	}
}

// TestDamagedBackup: a backup that does not lead back is refused.
func TestDamagedBackup(t *testing.T) {
	for name, damage := range map[string]func(*backup){
		"outside the file": func(b *backup) { b.Undo[0].End = 1 << 20 },
		"negative":         func(b *backup) { b.Undo[0].Start = -1 },
		"other text":       func(b *backup) { b.Undo[0].Text = []byte("x") },
		"a later version":  func(b *backup) { b.Version = 2 },
	} {
		r, path := one(t, kubectlStyle)
		j := Backups(folder(t))
		mustApply(t, mustPlan(t, r, entry("prod")), j)
		last, _, err := j.place(path)
		must.OK(t, err)
		b, err := readBackup(last)
		must.OK(t, err)
		damage(b)
		must.OK(t, b.write(last))
		if p, err := r.PlanUndo(context.Background(), j); err == nil {
			t.Errorf("%s: it would write\n%s", name, p.Diff())
		}
	}
}

func TestPlanRemove(t *testing.T) {
	ctx := context.Background()
	r, path := one(t, kubectlStyle)
	mustApply(t, mustPlan(t, r, entry("prod")), "")
	must.OK(t, modify(path, "other"))
	data := strings.Replace(text(t, path), "    cluster: other\n    user: other\n", "    cluster: prod\n    user: one\n",
		1)
	must.OK(t, os.WriteFile(path, []byte(data), 0o600))
	p, err := r.PlanRemove(ctx, "prod", Options{})
	must.OK(t, err)
	if len(p.Notes) != 2 || !strings.Contains(p.Notes[1], "other") {
		t.Errorf("notes %q", p.Notes)
	}
	mustApply(t, p, "")
	if got := text(t, path); strings.Contains(got, "7443") || !strings.Contains(got, "current-context: \"\"") {
		t.Errorf("got\n%s", got)
	}
	if p, err = r.PlanRemove(ctx, "prod", Options{}); err != nil || !p.Empty() {
		t.Errorf("second removal: %v, %v", p, err)
	}
	if _, err = r.PlanRemove(ctx, "one", Options{}); err == nil {
		t.Error("a foreign entry would be removed")
	}
}

// TestDiffFindsItsLines: also behind a hunk of several changes.
func TestDiffFindsItsLines(t *testing.T) {
	var before, after strings.Builder
	var splices []splice
	for i := range 40 {
		line := fmt.Sprintf("line: %d\n", i)
		if i == 2 || i == 5 || i == 30 {
			changed := fmt.Sprintf("changed: %d\n", i)
			splices = append(splices, splice{before.Len(), before.Len() + len(line), []byte(changed)})
			after.WriteString(changed)
		} else {
			after.WriteString(line)
		}
		before.WriteString(line)
	}
	f := fileEdit{source: source{path: "f", exists: true, data: []byte(before.String())}, after: []byte(after.String()),
		splices: splices}
	if got := f.diff(); !strings.Contains(got, "@@ -28,7 +28,7 @@") ||
		!strings.Contains(got, "\n-line: 30\n+changed: 30\n") {
		t.Errorf("the difference:\n%s", got)
	}
}
