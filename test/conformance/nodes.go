//go:build linux

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stages say what kwok does with nodes and pods.
//
//go:embed stages.yaml
var stages []byte

// simulatedNodes is how many nodes there are: the end-to-end tests want two.
const simulatedNodes = 2

// node is a node as a kubelet would register it, but that its kubelet is kwok:
// pods become running there, and nothing runs.
const node = `
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: %[1]s, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
status:
  allocatable: {cpu: "8", memory: 16Gi, ephemeral-storage: 100Gi, pods: "110"}
  capacity: {cpu: "8", memory: 16Gi, ephemeral-storage: 100Gi, pods: "110"}
  nodeInfo: {architecture: amd64, operatingSystem: linux, kubeletVersion: %[2]s}
`

// simulateNodes adds a scheduler and nodes that kwok simulates, until the way is
// closed.
func (w *way) simulateNodes(ctx context.Context, u *upstream) error {
	w.nodes = simulatedNodes
	var manifests []string
	for i := range simulatedNodes {
		manifests = append(manifests, fmt.Sprintf(node, fmt.Sprintf("node-%d", i), u.version))
	}
	if err := w.cluster.Apply(ctx, strings.Join(manifests, "---")); err != nil {
		return err
	}
	config := filepath.Join(w.dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return err
	}
	admin := "--kubeconfig=" + w.cluster.AdminKubeconfig()
	if err := errors.Join(
		w.serve(u.scheduler, admin, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"),
		w.serve(u.kwok, admin, "--config="+config, "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--node-lease-duration-seconds=40"),
	); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := w.cluster.Admin(ctx, "", "wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s")
	return err
}

// serve runs program until the way is closed.
func (w *way) serve(program string, args ...string) error {
	log, err := os.Create(filepath.Join(w.dir, filepath.Base(program)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"HOME=" + w.dir, "TMPDIR=" + w.dir}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.servers = append(w.servers, cmd)
	return nil
}
