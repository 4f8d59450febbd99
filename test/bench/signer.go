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

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// cold measures the external signer: one signature as a whole process, against
// a C program that makes the same calls of the same library.
func (b *bench) cold(ctx context.Context) error {
	ours, key, err := b.signer(ctx)
	if err != nil {
		return err
	}
	raw, err := b.compile(ctx)
	if err != nil {
		return err
	}
	theirs := program{path: raw, args: []string{b.lab.Soft.Module, key.Token, hex.EncodeToString(key.ID), lab.PIN},
		env: ours.env}
	return b.compare(ctx, row{what: "one signature as an external signer, cold",
		against: "a C program with the same library", bar: 4}, b.n, ours, theirs)
}

// crowd has many signers sign, several at a time, and counts those that fail: each
// with the token itself, and then all by the agent.
func (b *bench) crowd(ctx context.Context) error {
	const runs, atOnce = 160, 8
	alone, _, err := b.signer(ctx)
	if err != nil {
		return err
	}
	b.found(fmt.Sprintf("failures of %d signatures, %d processes at a time, without the agent", runs, atOnce), "0", "%d",
		failures(ctx, runs, atOnce, alone))
	if err := fresh(ctx, b.lab); err != nil {
		return err
	}
	_, _, enrolled, err := stored(b.lab)
	if err != nil {
		return err
	}
	byAgent, err := signRequest(map[string]string{wire.KeyURI: enrolled.Key.String()})
	if err != nil {
		return err
	}
	// Nobody types a PIN: without the agent all would fail.
	failed := failures(ctx, runs, atOnce, program{path: b.lab.Binary, env: append(b.lab.Env(), byAgent)})
	b.found(fmt.Sprintf("failures of %d signatures, %d processes at a time, by the agent", runs, atOnce), "0", "%d",
		failed)
	return ctx.Err()
}

// signer is the program with a request for a signature by a key that is not
// enrolled, in a folder of its own: without an agent.
func (b *bench) signer(ctx context.Context) (p program, key hsm.URI, err error) {
	if key, err = b.signingKey(ctx); err != nil {
		return p, key, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(b.hello), "signer-")
	if err != nil {
		return p, key, err
	}
	env := []string{home.EnvHome + "=" + folder, "PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	for name, value := range b.lab.Soft.Env() {
		env = append(env, name+"="+value)
	}
	request, err := signRequest(map[string]string{wire.KeyURI: key.String(), wire.KeyPIN: lab.PIN})
	return program{path: b.lab.Binary, env: append(env, request)}, key, err
}

// signRequest is a request in the variable that it comes in.
func signRequest(config map[string]string) (string, error) {
	request, err := wire.NewSignRequest(wire.KEP, config, make([]byte, crypto.SHA256.Size()), crypto.SHA256)
	return wire.EnvVar + "=" + string(request), err
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
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11")
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
