//go:build ignore

// Command gomod writes the go.mod and go.sum of the folder that it runs in, for a
// Kubernetes and, with the control plane, an etcd version:
//
//	go run gomod.go v1.37.1 v3.7.0
//
// k8s.io/kubernetes cannot be required as it is: its own go.mod replaces every
// staging module by a folder of its repository, and replaces of a dependency
// do not count. Each of them is published too, as v0.MINOR.PATCH, and is
// replaced by that here.
//
// Modules that the product needs too are taken in its versions where those are
// newer: what was compiled for the one is then there for the other.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// terminals gives the stub kubelet's commands a terminal.
const terminals = "github.com/creack/pty v1.1.24"

// productMod is the product's go.mod, seen from this folder.
const productMod = "../../go.mod"

// goMod is what `go mod edit -json` says, as far as it is needed.
type goMod struct {
	Go      string
	Require []struct{ Path, Version string }
	Godebug []struct{ Key, Value string }
	Replace []struct{ Old, New struct{ Path string } }
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run gomod.go KUBERNETES_VERSION ETCD_VERSION")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gomod:", err)
		os.Exit(1)
	}
}

func generate(kubernetes, etcd string) error {
	minor, ok := strings.CutPrefix(kubernetes, "v1.")
	if !ok {
		return fmt.Errorf("%q is not a Kubernetes version such as v1.37.1", kubernetes)
	}
	var download struct{ GoMod, Error string }
	if err := goJSON(&download, "mod", "download", "-json", "k8s.io/kubernetes@"+kubernetes); err != nil {
		return err
	}
	var up goMod
	if err := goJSON(&up, "mod", "edit", "-json", download.GoMod); err != nil {
		return err
	}
	var product goMod
	if err := goJSON(&product, "mod", "edit", "-json", productMod); err != nil {
		return err
	}
	if err := os.WriteFile("go.mod", text(up, product, kubernetes, "v0."+minor, etcd), 0o644); err != nil {
		return err
	}
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Stdout, tidy.Stderr = os.Stdout, os.Stderr
	return tidy.Run()
}

func text(up, product goMod, kubernetes, staging, etcd string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "module github.com/kubehsm/kubehsm/test/cluster\n\ngo %s\n\n", up.Go)
	for _, d := range up.Godebug {
		fmt.Fprintf(&b, "godebug %s=%s\n", d.Key, d.Value)
	}
	// kubectl is of the version that test/kubectl-externalsigner has; kubernetes says v0.0.0.
	fmt.Fprintf(&b, "\nrequire (\n\t%s\n\tgo.etcd.io/etcd/server/v3 %s\n\tk8s.io/kubectl %s\n", terminals, etcd, staging)
	for _, r := range product.Require {
		if !strings.HasPrefix(r.Path, "k8s.io/") {
			fmt.Fprintf(&b, "\t%s %s\n", r.Path, r.Version)
		}
	}
	fmt.Fprintf(&b, "\tk8s.io/kubernetes %s\n)\n\nreplace (\n", kubernetes)
	for _, r := range up.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			fmt.Fprintf(&b, "\t%s => %s %s\n", r.Old.Path, r.Old.Path, staging)
		}
	}
	b.WriteString(")\n")
	return b.Bytes()
}

// goJSON runs the go command and decodes its output into v.
func goJSON(v any, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return json.Unmarshal(out, v)
}
