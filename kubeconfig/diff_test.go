package kubeconfig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
			if err := os.WriteFile(copied, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(patch, "--binary", "-s", copied)
			cmd.Stdin = strings.NewReader(p.Diff())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, p.Diff())
			}
			mustApply(t, p, nil)
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

func TestUndoConflicts(t *testing.T) {
	ctx := context.Background()
	change := func(t *testing.T, path, from, to string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Replace(text(t, path), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("other lines", func(t *testing.T) {
		r, path := one(t, kubectlStyle)
		j := &Journal{Dir: folder(t)}
		mustApply(t, mustPlan(t, r, entry("prod")), j)
		if err := modify(path, "theirs"); err != nil { // client-go writes every line anew
			t.Fatal(err)
		}
		mustUndo(t, j)
		list, err := r.List(ctx)
		if err != nil || len(list) != 2 || list[0].Name != "one" || !list[0].Current || list[1].Name != "theirs" {
			t.Errorf("%+v, %v", list, err)
		}
	})
	t.Run("the same lines", func(t *testing.T) {
		r, path := one(t, kubectlStyle)
		j := &Journal{Dir: folder(t)}
		step := mustApply(t, mustPlan(t, r, entry("prod")), j)
		change(t, path, "127.0.0.1:7443", "127.0.0.1:1")
		if _, err := j.PlanUndo(ctx, step.ID); err == nil || !strings.Contains(fmt.Sprint(err), ErrConflict.Error()) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("current context", func(t *testing.T) {
		r, path := one(t, strings.Replace(kubectlStyle, "current-context: one", "current-context: zero", 1))
		j := &Journal{Dir: folder(t)}
		mustApply(t, mustPlan(t, r, entry("prod")), j)
		change(t, path, "current-context: prod", "current-context: one")
		undo, err := j.PlanUndo(ctx, "")
		if err != nil || len(undo.Notes) != 1 {
			t.Fatalf("%v, notes %v", err, undo)
		}
		mustApply(t, undo, j)
		if got := text(t, path); got != kubectlStyle {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("replaced entry comes back with its comments", func(t *testing.T) {
		before := "clusters:\n- name: prod   # mine\n  cluster: {server: https://x}\nkind: Config\n"
		r, path := one(t, before)
		j := &Journal{Dir: folder(t)}
		p, err := r.Plan(ctx, entry("prod"), Options{Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, p, j)
		change(t, path, "kind: Config", "kind: Config # new")
		mustUndo(t, j)
		if got := text(t, path); !strings.HasPrefix(got, strings.Replace(before, "Config", "Config # new", 1)) {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("no step", func(t *testing.T) {
		j := &Journal{Dir: filepath.Join(t.TempDir(), "none")}
		for _, id := range []string{"", "../../etc/passwd", "20260101T000000.000000000Z"} {
			if _, err := j.PlanUndo(ctx, id); err == nil || !strings.Contains(err.Error(), ErrNoStep.Error()) {
				t.Errorf("%q: error %v", id, err)
			}
		}
		if steps, err := j.History(ctx); err != nil || len(steps) != 0 {
			t.Errorf("%v, %v", steps, err)
		}
	})
	t.Run("written anew by kubectl, which adds nulls", func(t *testing.T) {
		r, path := one(t, "")
		j := &Journal{Dir: folder(t)}
		e := entry("prod")
		e.Exec.Env = nil
		mustApply(t, mustPlan(t, r, e), j)
		if err := modify(path, "other"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text(t, path), "env: null") {
			t.Fatalf("kubectl writes it otherwise now:\n%s", text(t, path))
		}
		if p := mustPlan(t, r, e); !p.Empty() {
			t.Errorf("there is something to change:\n%s", p.Diff())
		}
		p, err := j.PlanUndo(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, p, j)
		if left := text(t, path); strings.Contains(left, "prod") || !strings.Contains(left, "name: other") {
			t.Errorf("after the undo:\n%s", left)
		}
	})
	t.Run("pruned", func(t *testing.T) {
		r, _ := one(t, kubectlStyle)
		j := &Journal{Dir: folder(t)}
		left := filepath.Join(j.Dir, ".20260101T000000.000000000Z.json.kubehsm-1")
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(left, old, old); err != nil {
			t.Fatal(err)
		}
		step := mustApply(t, mustPlan(t, r, entry("prod")), j)
		record := text(t, j.path(step.ID))
		for i := range KeepSteps + 3 {
			id := time.Unix(int64(i), 0).UTC().Format(stepTime)
			if err := os.WriteFile(j.path(id), []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e := entry("prod")
		e.TLSServerName = "new"
		mustApply(t, mustPlan(t, r, e), j)
		steps, err := j.History(ctx)
		if err != nil || len(steps) != KeepSteps || !steps[0].Done || steps[0].ID < steps[1].ID {
			t.Errorf("%d steps, %v", len(steps), err)
		}
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("an unfinished record is still there: %v", err)
		}
	})
}

func TestPlanRemove(t *testing.T) {
	ctx := context.Background()
	r, path := one(t, kubectlStyle)
	mustApply(t, mustPlan(t, r, entry("prod")), nil)
	if err := modify(path, "other"); err != nil {
		t.Fatal(err)
	}
	data := strings.Replace(text(t, path), "    cluster: other\n    user: other\n", "    cluster: prod\n    user: one\n",
		1)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := r.PlanRemove(ctx, "prod", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 2 || !strings.Contains(p.Notes[1], "other") {
		t.Errorf("notes %q", p.Notes)
	}
	mustApply(t, p, nil)
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
