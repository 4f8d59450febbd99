//go:build linux

package main

import (
	"context"
	"crypto"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// signer measures the external signer: one signature as a whole process, against
// a C program that makes the same calls of the same library.
func (t *table) signer(ctx context.Context, s *stage) error {
	key, err := s.signingKey(ctx)
	if err != nil {
		return err
	}
	raw, err := s.compile(ctx)
	if err != nil {
		return err
	}
	folder := filepath.Join(filepath.Dir(s.hello), "signer")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	env := []string{home.EnvHome + "=" + folder, "PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	for name, value := range s.lab.Soft.Env() {
		env = append(env, name+"="+value)
	}
	request, err := wire.NewSignRequest(wire.KEP, map[string]string{wire.KeyURI: key.String(), wire.KeyPIN: lab.PIN}, make([]byte, crypto.SHA256.Size()), crypto.SHA256)
	if err != nil {
		return err
	}
	ours := program{path: s.lab.Binary, env: append(env, wire.EnvVar+"="+string(request))}
	theirs := program{path: raw, args: []string{s.lab.Soft.Module, key.Token, hex.EncodeToString(key.ID), lab.PIN}, env: env}
	const what = "one signature as an external signer, cold"
	fmt.Fprintln(os.Stderr, what)
	p, err := measure(ctx, t.n, ours, theirs)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	t.add(row{what, "a C program with the same library", p, "1.6"})
	return t.crowd(ctx, ours)
}

// crowd runs many signers, several at a time, and counts those that fail.
func (t *table) crowd(ctx context.Context, signer program) error {
	const runs, atOnce = 160, 8
	fmt.Fprintln(os.Stderr, runs, "signatures,", atOnce, "at a time")
	var wg sync.WaitGroup
	failures := make(chan error, runs)
	for range atOnce {
		wg.Go(func() {
			for range runs / atOnce {
				if _, err := signer.run(ctx); err != nil {
					failures <- err
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	t.counts = append(t.counts, count{fmt.Sprintf("failures of %d signatures, %d processes at a time", runs, atOnce), fmt.Sprint(len(failures)), "0"})
	return nil
}

// signingKey makes a key that is not enrolled.
func (s *stage) signingKey(ctx context.Context) (u hsm.URI, err error) {
	stdout, err := lab.Succeeded(s.lab.KubehsmPIN(ctx, lab.PIN, "key", "generate", "--label", "signer", "-o", "json"))
	if err != nil {
		return u, fmt.Errorf("generate a key: %w", err)
	}
	var made struct {
		URI hsm.URI `json:"uri"`
	}
	err = json.Unmarshal([]byte(stdout), &made)
	return made.URI, err
}

// compile makes the C program.
func (s *stage) compile(ctx context.Context) (string, error) {
	checkout, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11") // it has the headers
	list.Dir = checkout
	headers, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find PKCS#11's headers: %w", err)
	}
	path := filepath.Join(filepath.Dir(s.hello), "sign")
	cc := exec.CommandContext(ctx, "cc", "-O2", "-Wall", "-I", strings.TrimSpace(string(headers)), "-o", path,
		filepath.Join(checkout, "test", "bench", "testdata", "sign", "sign.c"), "-ldl")
	if out, err := cc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile: %w\n%s", err, out)
	}
	return path, nil
}
