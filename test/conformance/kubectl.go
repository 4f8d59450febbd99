//go:build linux

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// suiteScript takes the place of upstream's hack/make-rules/test-cmd.sh.
//
//go:embed kubectl.sh
var suiteScript []byte

// suiteFolders are what of k8s.io/kubernetes kubectl's suite reads.
var suiteFolders = []string{"hack/lib", "hack/testdata", "test/cmd", "test/e2e/testing-manifests", "test/fixtures",
	"third_party/forked/shell2junit"}

// kubectlOptions are the control plane's that upstream's suite has: no
// ServiceAccount admission, everything allowed, all controllers.
func kubectlOptions(kubernetes string) controlplane.Options {
	return controlplane.Options{
		APIServerFlags: []string{
			"--authorization-mode=AlwaysAllow", // after RBAC
			"--enable-admission-plugins=LimitRanger,ResourceQuota",
			"--disable-admission-plugins=ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds," +
				"MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection",
			"--runtime-config=api/v1",
			"--service-cluster-ip-range=10.0.0.0/24",
			"--token-auth-file=" + filepath.Join(kubernetes, "hack/testdata/auth-tokens.csv"),
		},
		Whole: true,
	}
}

// edit changes one line of a suite's file.
type edit struct {
	File string `json:"file"`
	From string `json:"from"`
	To   string `json:"to"`
}

// bothWays are the edits that the suite needs either way.
func bothWays() []edit {
	return []edit{
		// Server and authority are the kubeconfig's, not a flag's: a token's server is
		// the bridge. Commands that the suite gives a credential of its own keep the
		// flag, and reach the API server itself.
		{
			File: "test/cmd/legacy-script.sh",
			From: `kube_flags_without_token=( "${kube_flags[@]}" )`,
			To:   `kube_flags_without_token=( "${kube_flags[@]}" ); kube_flags=()`,
		},
		// The API server trusts the control plane's authority, not the suite's.
		{File: "hack/lib/util.sh", From: `*"CN = 127.0.0.1"*`, To: `*"CN = kubehsm-test-ca"*`},
	}
}

// kubectlSuite is a copy of the suite for one way.
type kubectlSuite struct {
	dir string
	way *way
}

// copySuite copies the suite to dir and makes the edits. Each must fit one line.
func copySuite(dir string, u *upstream, w *way, edits ...edit) (*kubectlSuite, error) {
	for _, folder := range suiteFolders {
		if err := copyTree(filepath.Join(u.kubernetes, folder), filepath.Join(dir, folder)); err != nil {
			return nil, err
		}
	}
	for _, e := range slices.Concat(bothWays(), edits) {
		file := filepath.Join(dir, e.File)
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(b), e.From); n != 1 {
			return nil, fmt.Errorf("%s: %q is there %d times, not once", e.File, e.From, n)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(b), e.From, e.To, 1)), 0o600); err != nil {
			return nil, err
		}
	}
	// The suite takes the API server's certificate for one that it may add anywhere.
	ca, err := os.ReadFile(w.cluster.CAFile())
	if err != nil {
		return nil, err
	}
	kubectl, err := filepath.EvalSymlinks(w.cluster.Kubectl())
	if err != nil {
		return nil, err
	}
	bin, tmp := filepath.Join(dir, "_output", "bin"), filepath.Join(dir, "tmp")
	return &kubectlSuite{dir, w}, errors.Join(
		os.WriteFile(filepath.Join(dir, "kubectl.sh"), suiteScript, 0o700), //nolint:gosec // a program
		os.MkdirAll(bin, 0o700), os.Mkdir(tmp, 0o700), os.WriteFile(filepath.Join(tmp, "apiserver.crt"), ca, 0o600),
		lab.LinkOrCopy(kubectl, filepath.Join(bin, "kubectl")), // a plugin is told kubectl's file
		os.Symlink(u.convert, filepath.Join(bin, "kubectl-convert")))
}

// copyTree copies the files below from, which are read-only in the module cache.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o700) //nolint:gosec // some are programs
	})
}

// run runs groups (run_…_tests), all if none is named, and returns how they went.
// A group that fails is no error.
func (s *kubectlSuite) run(ctx context.Context, groups ...string) (*outcome, error) {
	var what []string
	for _, g := range groups {
		what = append(what, strings.TrimSuffix(strings.TrimPrefix(g, "run_"), "_tests"))
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return nil, err
	}
	record := filepath.Join(s.dir, "record")
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "kubectl.sh"))
	cmd.Dir = s.dir
	cmd.Env = append(s.way.env, "PATH="+os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=xterm", "USER=jane",
		"TMPDIR="+filepath.Join(s.dir, "tmp"), "KUBE_JUNIT_REPORT_DIR="+s.dir, "KUBECACHEDIR="+filepath.Join(s.dir, "cache"),
		"SUITE_KUBECONFIG="+s.way.kubeconfig, "SUITE_SERVER="+s.way.cluster.Server(), "SUITE_RECORD="+record,
		"SUITE_PLUGIN="+s.way.plugin(), "WHAT="+strings.Join(what, " "))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal for prompts
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	begin := time.Now()
	err = errors.Join(cmd.Run(), log.Close())
	took := time.Since(begin)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	o, err := readRecord(record, log.Name())
	if err != nil {
		return nil, err
	}
	o.Took = took
	return o, s.way.count(ctx, o)
}
